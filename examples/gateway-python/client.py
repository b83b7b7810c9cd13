"""Orders an item. It makes one key, and sends it with each try until there is an outcome.

    python3 client.py --item tea
"""

import argparse
import base64
import http.client
import json
import sys
import time
import urllib.error
import urllib.request
import uuid


def send(url, user, key, item, timeout):
    """Returns status, headers and body of the answer, or None if there is none."""
    request = urllib.request.Request(
        url,
        method="POST",
        data=json.dumps({"item": item}).encode(),
        headers={
            "Content-Type": "application/json",
            "Authorization": "Basic " + base64.b64encode((user + ":").encode()).decode(),
            "Idempotency-Key": key,
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return response.status, response.headers, response.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers, answer.read().decode()
    except (OSError, http.client.HTTPException) as e:  # refused, cut off, too late
        print(f"no answer: {e}", flush=True)
        return None


def order(url, user, key, item, timeout, tries):
    """Returns the exit code: 0 if the item is ordered, else 1."""
    for _ in range(tries):
        answer = send(url, user, key, item, timeout)
        wait = 1
        if answer:
            status, headers, body = answer
            replayed = "replayed" if headers.get("Idempotency-Replayed") == "true" else ""
            print(status, body.strip(), replayed, flush=True)
            if status in (200, 201):
                return 0
            if "Retry-After" in headers:  # not now
                wait = int(headers["Retry-After"])
            elif status < 500:  # a refusal, or an outcome that the gateway does not know
                return 1
        time.sleep(wait)
    return 1


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--url", default="http://127.0.0.1:8080/orders")
    flags.add_argument("--user", default="ann")
    flags.add_argument("--item", default="tea")
    flags.add_argument("--key", default=str(uuid.uuid4()), help="to go on with the order of another run")
    flags.add_argument("--timeout", type=float, default=5, help="seconds for each try")
    flags.add_argument("--tries", type=int, default=60)
    given = flags.parse_args()
    print("key", given.key, flush=True)
    sys.exit(order(given.url, given.user, given.key, given.item, given.timeout, given.tries))


if __name__ == "__main__":
    main()
