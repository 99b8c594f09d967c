// host:port, as brokers tell it to each other and to clients.

/** The longest: a host name of 253 characters (RFC 1035) and a port. */
export const ADDRESS_CHARACTERS_MAX = 259;

const HOST_AND_PORT = /^(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9._-]{1,32})?\]):(\d{1,5})$/;

/** What is wrong with it; undefined when it is host:port. An IPv6 host stands in brackets. */
export function addressFault(address: string): string | undefined {
  const port = Number(HOST_AND_PORT.exec(address)?.[1] ?? 0);
  if (port >= 1 && port <= 65_535) return undefined;
  return `the address ${JSON.stringify(address.slice(0, 64))} is not host:port`;
}
