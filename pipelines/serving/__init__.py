"""The live page: a small web server beside a running stream.

hub = LiveHub(sources, models)              # watches the stream: one of its observers
with LiveServer(options, hub) as server:    # in a thread of its own; `server.address` is what to open
    hub.controls = stream                   # pause and stop from the page
    ...

Nothing of the server is imported before it is asked for: Starlette and uvicorn are the extra `cotrans[serve]`.
"""
