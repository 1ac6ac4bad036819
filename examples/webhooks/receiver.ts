/** A receiver of webhooks. PORT (0 for any free one) and WEBHOOK_SECRET are its settings; put TLS before it. */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { env } from 'node:process';
import { text } from 'node:stream/consumers';
import { Webhook } from 'standardwebhooks';

interface Event {
  type: string;
  data: { workflowId: string };
}

const webhook = new Webhook(env.WEBHOOK_SECRET ?? '');
const seen = new Set<string>(); // yours outlives the process, and goes with what you do about an event

async function statusFor(request: IncomingMessage): Promise<number> {
  try {
    const { type, data } = webhook.verify(await text(request), request.headers as Record<string, string>) as Event;
    const id = String(request.headers['webhook-id']);
    console.log(seen.has(id) ? 'again' : 'new', type, data.workflowId);
    seen.add(id);
    return 204;
  } catch {
    return 400; // a wrong signature, an old one, or none
  }
}

const server = createServer((request, response) => {
  void statusFor(request).then((status) => response.writeHead(status).end());
});
server.listen(Number(env.PORT ?? 8000), '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
