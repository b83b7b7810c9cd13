"""A service of Django as a user writes it: python3 django_service.py 127.0.0.1:9000"""
import sys

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="only for tests",
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["127.0.0.1", "shop.example"],
    MIDDLEWARE=[
        "django.middleware.gzip.GZipMiddleware",
        "django.middleware.http.ConditionalGetMiddleware",
        "django.middleware.common.CommonMiddleware",
    ],
)
django.setup()

from django.core.servers.basehttp import run
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

votes = 0


@csrf_exempt
def vote(request):
    global votes
    if request.method != "POST":
        return HttpResponse(status=405)
    votes += 1
    answer = JsonResponse({"votes": votes}, status=201)
    answer["Location"] = request.build_absolute_uri(f"/votes/{votes}")
    answer.set_cookie("session", "ann", domain=request.get_host().split(":")[0])
    return answer


def count(request):
    return HttpResponse(str(votes))


@csrf_exempt
def stream(request):
    size = len(request.body)
    return StreamingHttpResponse((f"part {i} of {size}\n" for i in range(3)), content_type="text/plain")


@csrf_exempt
def empty(request):
    return HttpResponse(status=204)


@csrf_exempt
def upload(request):
    return JsonResponse({"bytes": len(request.body)})


def page(request):
    # Django's own server would send the body after HEAD too.
    text = "" if request.method == "HEAD" else "page " * 100
    return HttpResponse(text, content_type="text/plain")  # ConditionalGetMiddleware adds the ETag


urlpatterns = [
    path("votes/", vote),
    path("count", count),
    path("stream", stream),
    path("empty", empty),
    path("upload", upload),
    path("page", page),
]

if __name__ == "__main__":
    host, port = sys.argv[1].split(":")
    run(host, int(port), get_wsgi_application(), threading=True)
