// Writes the few ASN.1 structures of certificates and certificate requests in DER (X.690).

/** One DER element: tag, length and contents (X.690 §8.1). */
export function der(tag: number, ...parts: Uint8Array[]): Buffer {
  const body = Buffer.concat(parts)
  const length =
    body.length < 128
      ? Buffer.from([body.length])
      : body.length < 256
        ? Buffer.from([0x81, body.length])
        : Buffer.from([0x82, body.length >> 8, body.length & 255])
  return Buffer.concat([Buffer.from([tag]), length, body])
}

/** A SEQUENCE of encoded elements. */
export const sequence = (...parts: Uint8Array[]): Buffer => der(0x30, ...parts)
/** An OBJECT IDENTIFIER from its encoded bytes. */
export const oid = (...bytes: number[]): Buffer => der(0x06, Buffer.from(bytes))
/** An `OCTET STRING`. */
export const octets = (body: Uint8Array): Buffer => der(0x04, body)
/** A BIT STRING of whole bytes. */
export const bits = (body: Uint8Array): Buffer => der(0x03, Buffer.from([0]), body)
export const yes = der(0x01, Buffer.from([0xff]))

/** ecdsa-with-SHA256 (RFC 5758 §3.2). */
export const ECDSA_SHA256 = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02))
export const SUBJECT_ALT_NAME = oid(0x55, 0x1d, 0x11)

/** The PEM form of bytes: base64 in lines of 64 between BEGIN and END lines. */
export const pem = (label: string, octets: Uint8Array): string =>
  `-----BEGIN ${label}-----\n${Buffer.from(octets).toString('base64').replace(/.{64}/g, '$&\n').trimEnd()}\n-----END ${label}-----\n`

/** A parsed element: its tag, and the offsets of its contents. */
export interface DerElement {
  tag: number
  start: number
  body: number
  end: number
}

/** Reads the element at an offset. Undefined if there is no element, or if it extends beyond `limit`. */
export function readDer(octets: Uint8Array, start: number, limit = octets.length): DerElement | undefined {
  const [tag, first] = [octets[start], octets[start + 1]]
  if (tag === undefined || first === undefined) return undefined
  const more = first < 128 ? 0 : first - 128
  if (more > 3 || first === 128) return undefined
  let length = more === 0 ? first : 0
  for (let at = 0; at < more; at++) length = length * 256 + (octets[start + 2 + at] ?? 0)
  const body = start + 2 + more
  const end = body + length
  return end > limit ? undefined : { tag, start, body, end }
}

/** The elements between two offsets, as far as they can be read. */
export function readAllDer(octets: Uint8Array, { body, end }: Pick<DerElement, 'body' | 'end'>): DerElement[] {
  const found: DerElement[] = []
  for (let at = body; at < end;) {
    const element = readDer(octets, at, end)
    if (!element) break
    found.push(element)
    at = element.end
  }
  return found
}
