"""A receiver of webhooks. PORT (0 for any free one) and WEBHOOK_SECRET are its settings; put TLS before it."""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
seen = set()  # yours outlives the process, and goes with what you do about an event


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            event = webhook.verify(body, dict(self.headers))
            event_id = self.headers["webhook-id"]
            print("again" if event_id in seen else "new", event["type"], event["data"].get("workflowId"), flush=True)
            seen.add(event_id)
            self.send_response(204)
        except (WebhookVerificationError, ValueError):  # a wrong signature, an old one, or none
            self.send_response(400)
        self.end_headers()


server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Receiver)
print(f"Listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
