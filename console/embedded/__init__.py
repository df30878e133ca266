"""`make up`, `make test` and `make down`: everything Deskyard needs on one machine, owned by one process.

That process starts PostgreSQL, the container engine, the console, the supervisor and one worker as its
children, and each of them ends with it, however it ends. The other apps are named by string here and reached
as commands.
"""
