#!/usr/bin/env python3
"""Makes http.pcap: HTTP traffic between a small server and a small client on the loopback interface.

Needs Linux, tcpdump and the right to capture. Usage: python3 make.py [OUTPUT]   (default: http.pcap beside this file)

The traffic: pages of several sizes, with and without keep-alive, gzip bodies, chunked bodies, redirects, 404 and 304
answers, HEAD and POST and PUT and DELETE, a few bodies that need several segments, over IPv4 and IPv6.
"""

import gzip
import http.client
import http.server
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

LIMIT = 1 << 20  # the file must not be larger
SEGMENT = 1400  # bytes that the server sends at once
WORDS = "warp weft thread loom shuttle heddle reed cloth pattern twill selvage pick shed beam".split()


def text(rng, length):
    """Readable filler of about `length` bytes."""
    parts, size = [], 0
    while size < length:
        word = rng.choice(WORDS)
        parts.append(word)
        size += len(word) + 1
    return " ".join(parts).encode()[:length]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "sample/1.0"
    sys_version = ""
    disable_nagle_algorithm = True
    # Head and body leave together, in pieces of a segment: the loopback interface would carry 64 KiB in one packet,
    # a network would not.
    wbufsize = SEGMENT
    rng = random.Random(1)

    def log_message(self, *args):
        pass

    def reply(self, status, body=b"", kind="text/html; charset=utf-8", **extra):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in extra.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            for start in range(0, len(body), SEGMENT):
                self.wfile.write(body[start : start + SEGMENT])

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/":
            self.reply(200, b"<!doctype html><title>Cloth</title><p>" + text(self.rng, 700), Cache_Control="no-cache")
        elif path.startswith("/item/"):
            body = json.dumps({"id": int(path.rsplit("/", 1)[1]), "name": self.rng.choice(WORDS), "stock": 3}).encode()
            self.reply(200, body, "application/json", ETag='"v1"')
        elif path == "/style.css":
            body = gzip.compress(text(self.rng, 3000), mtime=0)
            self.reply(200, body, "text/css", Content_Encoding="gzip", Vary="Accept-Encoding")
        elif path == "/photo":
            self.reply(200, self.rng.randbytes(12000), "image/jpeg", Cache_Control="max-age=3600")
        elif path == "/old":
            self.reply(301, Location="/")
        elif path == "/cached":
            self.reply(304, ETag='"v1"') if "If-None-Match" in self.headers else self.reply(200, text(self.rng, 200))
        elif path == "/stream":
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for _ in range(4):
                chunk = text(self.rng, 150)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.reply(404, b"<title>404</title>no such page\n")

    do_HEAD = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.reply(201, json.dumps({"received": len(body)}).encode(), "application/json", Location="/item/7")

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.reply(204)

    def do_DELETE(self):
        self.reply(204)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


class Server6(Server):
    address_family = socket.AF_INET6


AGENTS = {
    "User-Agent": "sample-client/1.0 (loopback)",
    "Accept": "text/html,application/json;q=0.9,*/*;q=0.8",
    "Accept-Encoding": "gzip",
    "Accept-Language": "en",
}


def client(host, port, seed, requests):
    """One client: some requests on one connection, some each on its own."""
    rng = random.Random(seed)
    kept = http.client.HTTPConnection(host, port)
    for number in range(requests):
        alone = rng.random() < 0.25
        connection = http.client.HTTPConnection(host, port) if alone else kept
        headers = dict(AGENTS)
        if alone:
            headers["Connection"] = "close"
        choice = rng.choices(
            ["/", "item", "/style.css", "/photo", "/old", "/cached", "/stream", "/missing", "head", "post", "put", "delete"],
            [14, 30, 8, 2, 4, 8, 5, 8, 4, 10, 4, 3],
        )[0]
        if choice == "item":
            connection.request("GET", f"/item/{number}?page={number % 9}&sort=asc", headers=headers)
        elif choice == "head":
            connection.request("HEAD", "/", headers=headers)
        elif choice == "post":
            body = json.dumps({"number": number, "note": text(rng, rng.choice([20, 200, 2500])).decode()})
            connection.request("POST", "/item", body, {**headers, "Content-Type": "application/json"})
        elif choice == "put":
            connection.request("PUT", "/item/3", text(rng, 400), {**headers, "Content-Type": "text/plain"})
        elif choice == "delete":
            connection.request("DELETE", "/item/3", headers=headers)
        elif choice == "/cached":
            connection.request("GET", "/cached", headers={**headers, "If-None-Match": '"v1"'})
        else:
            connection.request("GET", choice, headers=headers)
        connection.getresponse().read()
        if alone:
            connection.close()
        time.sleep(0.001)
    kept.close()


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    output = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "http.pcap")
    servers = [Server(("127.0.0.1", 0), Handler), Server6(("::1", 0), Handler)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    ports = " or ".join(f"port {server.server_address[1]}" for server in servers)
    # -U: every packet is in the file when tcpdump is told to stop; -s 0: whole packets.
    dump = subprocess.Popen(["tcpdump", "-i", "lo", "-U", "-s", "0", "-w", output, f"tcp and ({ports})"])
    time.sleep(2)
    clients = [
        threading.Thread(target=client, args=(server.server_address[0], server.server_address[1], seed, 70))
        for seed in range(3)
        for server in servers
    ]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    time.sleep(1)
    dump.send_signal(signal.SIGINT)
    dump.wait()
    size = os.path.getsize(output)
    print(f"{output}: {size} bytes")
    if size > LIMIT:
        sys.exit(f"larger than {LIMIT} bytes")


if __name__ == "__main__":
    main()
