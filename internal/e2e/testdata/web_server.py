# A stand-in for Jupyter: a page with a token, and a WebSocket that echoes text.
import base64, hashlib, http.server, os, socketserver, urllib.parse

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        if urllib.parse.parse_qs(url.query).get("token") != [os.environ["JUPYTER_TOKEN"]]:
            return self.answer(403, b"wrong token")
        if url.path != "/echo":
            return self.answer(200, b"hello from a notebook")
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.echo()
        self.close_connection = True

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def echo(self):
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 != 1:
                return
            mask = self.rfile.read(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(head[1] & 127)))
            self.wfile.write(bytes([0x81, len(data)]) + data)

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

Server(("127.0.0.1", int(os.environ["PORT0"])), Handler).serve_forever()
