"""A service that takes orders. It knows nothing of keys and retries: the gateway before it does.

    python3 service.py --listen 127.0.0.1:9000
"""

import argparse
import json
import sqlite3
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DATABASE = "orders.db"


class Orders(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds that a connection may rest
    pause = 0.0

    def do_POST(self):
        if self.path != "/orders":
            return self.answer(404, {"error": "no such page"})
        try:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            item = json.loads(body)["item"]
            if not isinstance(item, str) or not item:
                raise ValueError("no item")
        except (ValueError, KeyError, TypeError):
            return self.answer(400, {"error": 'send JSON like {"item":"tea"}'})
        try:
            with sqlite3.connect(DATABASE, timeout=10) as db:
                order = db.execute("INSERT INTO orders (item) VALUES (?)", (item,)).lastrowid
        except sqlite3.Error as e:
            self.log_error("an order was not placed: %s", e)
            return self.answer(500, {"error": "the order was not placed"})
        time.sleep(self.pause)  # the order is placed, and the answer is late
        self.answer(201, {"order": order, "item": item})

    def do_GET(self):
        with sqlite3.connect(DATABASE, timeout=10) as db:
            (n,) = db.execute("SELECT count(*) FROM orders").fetchone()
        self.answer(200, {"orders": n})

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--listen", default="127.0.0.1:9000", help="address to listen on")
    flags.add_argument("--pause", type=float, default=0, help="seconds between an order and its answer")
    given = flags.parse_args()
    with sqlite3.connect(DATABASE) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)")
    Orders.pause = given.pause
    host, port = given.listen.rsplit(":", 1)
    ThreadingHTTPServer((host, int(port)), Orders).serve_forever()


if __name__ == "__main__":
    main()
