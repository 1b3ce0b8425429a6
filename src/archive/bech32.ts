// Bech32 (BIP 173) of a key of 32 octets, as age writes its recipients and identities: a prefix, the octets in groups
// of five bits, and a checksum that finds every mistake in up to four characters.

const ALPHABET = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l'
const GENERATORS = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3]
/** Five bits for each of 52 characters: 32 octets and four bits of zeros. */
const CHARACTERS = 52
const CHECKSUM = 6

function checksumOf(values: readonly number[]): number {
  let sum = 1
  for (const value of values) {
    const top = sum >>> 25
    sum = ((sum & 0x1ffffff) << 5) ^ value
    for (const [bit, generator] of GENERATORS.entries()) if ((top >>> bit) & 1) sum ^= generator
  }
  return sum
}

const expanded = (prefix: string): number[] => {
  const codes = [...Buffer.from(prefix)]
  return [...codes.map((code) => code >>> 5), 0, ...codes.map((code) => code & 31)]
}

/** The text of 32 octets in lower case. */
export function toBech32(prefix: string, octets: Uint8Array): string {
  const bits = [...octets].map((octet) => octet.toString(2).padStart(8, '0')).join('')
  const values = Array.from({ length: CHARACTERS }, (_, at) =>
    parseInt(bits.slice(at * 5, at * 5 + 5).padEnd(5, '0'), 2),
  )
  const sum = checksumOf([...expanded(prefix), ...values, ...Array<number>(CHECKSUM).fill(0)]) ^ 1
  const check = Array.from({ length: CHECKSUM }, (_, at) => (sum >>> (5 * (CHECKSUM - 1 - at))) & 31)
  return `${prefix}1${[...values, ...check].map((value) => ALPHABET[value]).join('')}`
}

/** The 32 octets of a text with this prefix (lower case); undefined when it is none, or has a mistake. */
export function ofBech32(prefix: string, text: string): Buffer | undefined {
  const lower = text.toLowerCase()
  // Upper and lower case are not mixed (BIP 173).
  if (text !== lower && text !== text.toUpperCase()) return undefined
  if (!lower.startsWith(`${prefix}1`) || lower.length !== prefix.length + 1 + CHARACTERS + CHECKSUM) return undefined
  const values = Array.from(lower.slice(prefix.length + 1), (character) => ALPHABET.indexOf(character))
  if (values.includes(-1) || checksumOf([...expanded(prefix), ...values]) !== 1) return undefined
  const bits = values
    .slice(0, CHARACTERS)
    .map((value) => value.toString(2).padStart(5, '0'))
    .join('')
  if (bits.slice(256) !== '0000') return undefined
  return Buffer.from(Array.from({ length: 32 }, (_, at) => parseInt(bits.slice(at * 8, at * 8 + 8), 2)))
}
