/** `codec-server`: decrypts for Temporal's web UI and command line, so that neither has a key, until it is ended. */
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { Command } from 'commander';
import { webUiOf } from '../client/web-ui.js';
import { cannotListen } from '../config/config-error.js';
import { UsageError } from './exit.js';
import { print, printToStderr, type GlobalOptions } from './session.js';

const DEFAULT_LISTEN = '127.0.0.1:8235';

interface CodecServerFlags {
  tokenFile: string;
  listen: string;
}

const EXITS = `
Reads the keys of PAYLOAD_KEYS_FILE, and serves one namespace. Pages of the web UI may call it: those of
AGENT_JOBS_WEB_UI_URL, or of a dev server's usual place. It speaks HTTP: whoever listens beyond this machine puts TLS
before it.`;

/** Adds `codec-server`. */
export function addCodecServer(program: Command): void {
  const command = program
    .command('codec-server')
    .description('serve Temporal’s codec protocol, so that the web UI shows what PAYLOAD_KEYS_FILE encrypts')
    .requiredOption('--token-file <path>', 'the token that its users need, in a file: openssl rand -base64 32')
    .option('--listen <host:port>', 'where it listens', DEFAULT_LISTEN)
    .addHelpText('after', EXITS)
    .action((flags: CodecServerFlags) => serve(command.optsWithGlobals<GlobalOptions>(), flags));
}

async function serve(globals: GlobalOptions, { tokenFile, listen }: CodecServerFlags): Promise<void> {
  const { readClientConfig } = await import('../config/client.js');
  const { readPayloadKeys } = await import('../config/client.js');
  const { EncryptionCodec } = await import('../temporal/payload-codec.js');
  const { createCodecServer, readToken } = await import('./codec-http.js');
  const address = await toAddress(listen);
  const { temporal, webUiUrl } = readClientConfig(undefined, globals.address);
  const keys = readPayloadKeys();
  if (!keys) throw new Error('PAYLOAD_KEYS_FILE is not set: there is nothing to decrypt with');
  await readToken(tokenFile);
  const namespace = globals.namespace ?? temporal.namespace;
  const server = createCodecServer({
    codec: new EncryptionCodec(keys),
    namespace,
    origins: await originsOf(webUiUrl, temporal.address),
    token: () => readToken(tokenFile),
    onProblem: (problem) => printToStderr(`agent-jobs: ${problem}`),
  });
  await listenUntilEnded(server, address, namespace);
}

async function toAddress(listen: string): Promise<{ host: string; port: number }> {
  const { parseListenAddress } = await import('../config/fields.js');
  const address = parseListenAddress(listen);
  if (address) return address;
  throw new UsageError('--listen should be host:port, for example 127.0.0.1:8235 or [::1]:8235');
}

/** On this machine a browser knows the web UI by two names. */
async function originsOf(webUiUrl: string | undefined, address: string): Promise<string[]> {
  const found = webUiOf({ connection: { options: { address } }, options: { namespace: '' } } as never, webUiUrl);
  if (found === null) throw new UsageError('set AGENT_JOBS_WEB_UI_URL to the address of the web UI');
  const { origin } = new URL(found.url);
  const names = /\/\/(localhost|127\.0\.0\.1)(?=:|$)/;
  return names.test(origin) ? ['//127.0.0.1', '//localhost'].map((name) => origin.replace(names, name)) : [origin];
}

async function listenUntilEnded(
  server: Server,
  { host, port }: { host: string; port: number },
  namespace: string,
): Promise<void> {
  server.listen(port, host);
  await once(server, 'listening').catch((error: unknown) => {
    throw cannotListen('--listen', error);
  });
  const { port: taken } = server.address() as { port: number };
  print(`Codec server of namespace ${namespace}: http://${host.includes(':') ? `[${host}]` : host}:${taken}`);
  const ended = once(server, 'close');
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  process.once('SIGINT', stop).once('SIGTERM', stop);
  await ended;
}
