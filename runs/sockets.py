from channels.generic.websocket import AsyncWebsocketConsumer


class RunConsumer(AsyncWebsocketConsumer):
    pass
