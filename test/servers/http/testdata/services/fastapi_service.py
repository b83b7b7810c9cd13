"""A service of FastAPI as a user writes it: python3 fastapi_service.py 127.0.0.1:9000"""
import sys

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.middleware.gzip import GZipMiddleware

app = FastAPI()
app.add_middleware(GZipMiddleware, minimum_size=100)
votes = 0


@app.post("/votes/")
async def vote(request: Request):
    global votes
    await request.body()
    votes += 1
    answer = JSONResponse({"votes": votes}, status_code=201)
    answer.headers["Location"] = str(request.url_for("vote_of", number=votes))
    answer.set_cookie("session", "ann", domain=request.url.hostname)
    return answer


@app.get("/votes/{number}")
async def vote_of(number: int):
    return {"vote": number}


@app.get("/count")
async def count():
    return votes


@app.post("/stream")
async def stream(request: Request):
    size = len(await request.body())
    return StreamingResponse((f"part {i} of {size}\n" for i in range(3)), media_type="text/plain")


@app.post("/empty", status_code=204)
async def empty():
    return Response(status_code=204)


@app.post("/upload")
async def upload(request: Request):
    return {"bytes": len(await request.body())}


@app.api_route("/page", methods=["GET", "HEAD"])
async def page(request: Request):
    if request.headers.get("if-none-match") == '"one"':
        return Response(status_code=304, headers={"ETag": '"one"'})
    return Response("page " * 100, media_type="text/plain", headers={"ETag": '"one"'})


if __name__ == "__main__":
    host, port = sys.argv[1].split(":")
    uvicorn.run(app, host=host, port=int(port), proxy_headers=True, forwarded_allow_ips="*", log_level="warning")
