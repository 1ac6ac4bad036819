/** A certificate authority of a test's own: certificates of P-256 keys, written in DER by hand. Nothing trusts them. */
import { generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto';

export interface Identity {
  key: string;
  cert: string;
}

const DAY_S = 86_400;
const OID = {
  commonName: '0603550403',
  ecdsaWithSha256: '06082a8648ce3d040302',
  basicConstraints: '0603551d13',
  alternativeNames: '0603551d11',
};

const hex = (text: string) => Buffer.from(text, 'hex');

function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

const sequence = (...parts: Buffer[]) => der(0x30, ...parts);
const octets = (content: Buffer) => der(0x04, content);
const bits = (content: Buffer) => der(0x03, Buffer.from([0]), content);
const TRUE = hex('0101ff');
const ALGORITHM = sequence(hex(OID.ecdsaWithSha256));
const generalizedTime = (seconds: number) =>
  der(0x18, Buffer.from(`${new Date(seconds * 1_000).toISOString().replace(/[-:T]|\.\d+Z/g, '')}Z`));
const nameOf = (text: string) => sequence(der(0x31, sequence(hex(OID.commonName), der(0x0c, Buffer.from(text)))));
/** No line may be empty: not every reader takes that. */
const lines = (base64: string) => base64.match(/.{1,64}/g)!.join('\n');
const pem = (content: Buffer) =>
  `-----BEGIN CERTIFICATE-----\n${lines(content.toString('base64'))}\n-----END CERTIFICATE-----\n`;

/** Signs certificates for `localhost` and 127.0.0.1, which fit servers and clients alike. */
export class Authority {
  readonly cert: string;
  readonly #name: string;
  readonly #key: KeyObject;

  constructor(name: string) {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    this.#name = name;
    this.#key = privateKey;
    const isAuthority = sequence(hex(OID.basicConstraints), TRUE, octets(sequence(TRUE)));
    this.cert = this.#signed(name, publicKey, isAuthority);
  }

  issue(name: string): Identity {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const names = sequence(der(0x82, Buffer.from('localhost')), der(0x87, Buffer.from([127, 0, 0, 1])));
    const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    return { key, cert: this.#signed(name, publicKey, sequence(hex(OID.alternativeNames), octets(names))) };
  }

  #signed(name: string, publicKey: KeyObject, extension: Buffer): string {
    const now = Math.floor(Date.now() / 1_000);
    const content = sequence(
      der(0xa0, hex('020102')),
      der(0x02, Buffer.from([0x40]), randomBytes(15)),
      ALGORITHM,
      nameOf(this.#name),
      sequence(generalizedTime(now - 60), generalizedTime(now + DAY_S)),
      nameOf(name),
      publicKey.export({ type: 'spki', format: 'der' }),
      der(0xa3, sequence(extension)),
    );
    const signature = sign('sha256', content, { key: this.#key, dsaEncoding: 'der' });
    return pem(sequence(content, ALGORITHM, bits(signature)));
  }
}
