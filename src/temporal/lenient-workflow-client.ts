import { WorkflowClient, type Client } from '@temporalio/client';
import type { PayloadCodec, PayloadConverter } from '@temporalio/common';

/**
 * Reads workflows as the client does, but a memo field that can't be decoded, such as one of another service under
 * its own key, is undefined: one foreign memo must not end a whole list.
 */
export function tolerantWorkflows(client: Client): WorkflowClient {
  const { connection, options } = client;
  const { namespace, identity, loadedDataConverter } = options;
  return new WorkflowClient({ connection, namespace, identity, dataConverter: tolerant(loadedDataConverter) });
}

type LoadedDataConverter = Client['options']['loadedDataConverter'];

function tolerant({ payloadConverter, payloadCodecs, ...others }: LoadedDataConverter): LoadedDataConverter {
  return {
    ...others,
    payloadConverter: new TolerantConverter(payloadConverter),
    payloadCodecs: payloadCodecs.map((codec) => new TolerantCodec(codec)),
  };
}

type Payload = Parameters<PayloadConverter['fromPayload']>[0];

class TolerantConverter implements PayloadConverter {
  readonly #strict: PayloadConverter;

  constructor(strict: PayloadConverter) {
    this.#strict = strict;
  }

  toPayload<T>(value: T): Payload {
    return this.#strict.toPayload(value);
  }

  fromPayload<T>(payload: Payload): T {
    try {
      return this.#strict.fromPayload(payload);
    } catch {
      return undefined as T;
    }
  }
}

/** Hands on as it is what the codec can't decode, for the converter to judge. */
class TolerantCodec implements PayloadCodec {
  readonly #strict: PayloadCodec;

  constructor(strict: PayloadCodec) {
    this.#strict = strict;
  }

  encode(payloads: Payload[]): Promise<Payload[]> {
    return this.#strict.encode(payloads);
  }

  async decode(payloads: Payload[]): Promise<Payload[]> {
    return await this.#strict.decode(payloads).catch(() => payloads);
  }
}
