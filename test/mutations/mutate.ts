// Seeded damage: what a mutation does to octets depends on its number alone.
import { seeded } from '../kit/seeded.ts'

const TOKENS = [
  '\r\n',
  '\r\n\r\n',
  '\r\n ',
  ' ',
  '\t',
  '"',
  '\\',
  '(',
  ')',
  '<',
  '>',
  '@',
  ':',
  ';',
  ',',
  '=',
  '=?',
  '?=',
  '--',
  '--b',
  '\0',
  '\xff',
  '%',
  '{{',
  '}}',
  '&',
  "''",
]

export function mutate(bytes: Buffer, other: Buffer, seed: number): Buffer {
  const random = seeded(seed)
  const below = (end: number): number => Math.floor(random() * end)
  let result = bytes
  for (let times = 1 + below(4); times > 0; times--) {
    const at = below(result.length + 1)
    const end = Math.min(result.length, at + below(64))
    const before = result.subarray(0, at)
    const after = result.subarray(end)
    const token = Buffer.from(TOKENS[below(TOKENS.length)]!, 'latin1')
    const kind = below(6)
    const between =
      kind === 0
        ? Buffer.alloc(0)
        : kind === 1
          ? Buffer.concat(Array.from({ length: 1 + below(200) }, () => token))
          : kind === 2
            ? Buffer.concat(Array.from({ length: 2 + below(20) }, () => result.subarray(at, end)))
            : kind === 3
              ? Buffer.from(result.subarray(at, end).map((octet) => octet ^ (1 << below(8))))
              : kind === 4
                ? other.subarray(below(other.length), below(other.length))
                : Buffer.concat([result.subarray(at, end), token])
    result = Buffer.concat([before, between, after])
  }
  return result
}
