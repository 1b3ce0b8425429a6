// An address that is to be forgotten, as the tables look for it: in plain text without case, and in the forms that encodings give it.
import { raw, type Query } from './query.ts'

export interface Erasing {
  userKey: number
  /** Lower case. */
  address: string
  /** "#<hash>": what stays of it where it must still be recognised. */
  hash: string
  /** What stands in its place elsewhere. */
  mark: string
}

/** Where a base64 text begins within a group of three octets, the octets of an address look different. */
const ALIGNMENTS = [0, 1, 2]

/** The octets that betray an address inside a mail: itself, and what base64 and quoted-printable make of it. */
export function tracesOf(address: string): Buffer[] {
  const plain = [address, address.replace('@', '=40'), address.replace('@', '%40')]
  const forms = [address, address.charAt(0).toUpperCase() + address.slice(1), address.toUpperCase()]
  const base64 = forms.flatMap((form) =>
    ALIGNMENTS.map((shift) => {
      const bytes = Buffer.concat([Buffer.alloc(shift), Buffer.from(form)])
      const whole = bytes.length - (bytes.length % 3)
      // Only characters that depend on the address alone.
      return bytes
        .subarray(0, whole)
        .toString('base64')
        .slice(shift === 0 ? 0 : 4)
    }),
  )
  return [...new Set([...plain, ...base64])].filter((text) => text.length >= 6).map((text) => Buffer.from(text))
}

/** Whether octets hold the address in any form. Lines are unfolded for base64, letters compared without case for plain text. */
export function betrays(bytes: Uint8Array, address: string): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const text = buffer.toString('latin1')
  const joined = text.replace(/=?\r?\n/g, '')
  const lower = joined.toLowerCase()
  return tracesOf(address).some((trace) => {
    const form = trace.toString('latin1')
    return form.includes('@') || form.includes('=40') || form.includes('%40')
      ? lower.includes(form)
      : joined.includes(form)
  })
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** The text with the mark wherever the address stood. */
export function redact(text: string, { address, mark }: Pick<Erasing, 'address' | 'mark'>): string {
  const forms = [address, address.replace('@', '%40'), address.replace('@', '=40')].map(escaped)
  return text.replace(new RegExp(forms.join('|'), 'gi'), mark)
}

/** For `instr(lower(column), …)`: SQLite's lower() knows ASCII, which is what addresses here are but for rare local parts. */
export const holds = (column: string): string => `instr(lower(${column}), ?) > 0`

/** SQL that names an account and an address several times, as `asked.user` and `asked.address`. */
export const about = <Row>(sql: string, userKey: number, address: string): Query<Row> =>
  raw<Row>(
    `with asked(user, address) as (values (?, ?)) ${sql
      .replaceAll('asked.user', '(select user from asked)')
      .replaceAll('asked.address', '(select address from asked)')}`,
    [userKey, address],
  )
