worker_sockets: list = []
