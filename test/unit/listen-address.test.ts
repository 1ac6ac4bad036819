import { networkInterfaces, type NetworkInterfaceInfo } from 'node:os';
import { expect, test, vi } from 'vitest';
import { readHttpConfig } from '../../src/config.js';

vi.mock('node:os', async (original) => ({
  ...(await original<object>()),
  networkInterfaces: vi.fn<typeof networkInterfaces>(),
}));

const listensAt = (HTTP_ADDRESS: string, ...families: string[]) => {
  const addresses = families.map((family) => ({ family }) as NetworkInterfaceInfo);
  vi.mocked(networkInterfaces).mockReturnValue({ eth0: addresses });
  return readHttpConfig({ HTTP_ADDRESS, HTTP_KEYS_FILE: import.meta.filename }).address;
};

test('[::] is all addresses of a machine, IPv6 or not', () => {
  expect(listensAt('[::]:8080', 'IPv4', 'IPv6')).toEqual({ host: '::', port: 8080 });
  expect(listensAt('[::]:8080', 'IPv6')).toEqual({ host: '::', port: 8080 });
  // A system without IPv6 lets no server listen there.
  expect(listensAt('[::]:8080', 'IPv4')).toEqual({ host: '0.0.0.0', port: 8080 });
  expect(listensAt('[::1]:8080', 'IPv4')).toEqual({ host: '::1', port: 8080 });
  expect(listensAt('0.0.0.0:8080', 'IPv6')).toEqual({ host: '0.0.0.0', port: 8080 });
});
