// Written by minisign 0.11 (minisign -S -s KEY -m SHA256SUMS -t COMMENT). The key was made for this and then deleted.
import { createHash } from 'node:crypto'
import type { SignedSums } from '../../src/archive/signature.ts'

export const deb = 'postrider_1.2.3_amd64.deb'
const hash = (text: string): string => createHash('sha256').update(text).digest('hex')

const key = [
  'untrusted comment: minisign public key 738E98C97C886A5C',
  'RWRcaoh8yZiOc31CEjm+Ym1JYHSEZcjYqGC7RQE9z5Y3+1xWcpnUq2Fc',
  '',
].join('\n')
export const otherKey = [
  'untrusted comment: minisign public key 94522AC523736726',
  'RWQmZ3MjxSpSlD2TKEiRabn/E4pzSqYXRG6m6JqqoNzv2fwUMl7CRYkS',
  '',
].join('\n')
/** The other key under the id of the first. */
export const sameId = [
  'untrusted comment: minisign public key',
  'RWRcaoh8yZiOcz2TKEiRabn/E4pzSqYXRG6m6JqqoNzv2fwUMl7CRYkS',
  '',
].join('\n')

export const signature = [
  'untrusted comment: signature from minisign secret key',
  'RURcaoh8yZiOc0CUo2h5Dw83cMI2MI0l7lD2SQ4sW6+ItuIYqHCep07sF4+LnuP9M8jE64F99Fyh+uUbIEn49m84Y78mbvmKQgA=',
  'trusted comment: postrider 1.2.3',
  'zjcPNqdFesftc7o8hDoZrdShpaBRzFINpHK2U4z3u1ZgD4ni0p01yiNHab32uAzYRQKtSoBJz/D5DDaiZBiZBg==',
  '',
].join('\n')
export const otherComment = Buffer.from(signature.replace('postrider 1.2.3', 'postrider 1.2.4'))
export const notARelease = Buffer.from(
  [
    'untrusted comment: signature from minisign secret key',
    'RURcaoh8yZiOc0CUo2h5Dw83cMI2MI0l7lD2SQ4sW6+ItuIYqHCep07sF4+LnuP9M8jE64F99Fyh+uUbIEn49m84Y78mbvmKQgA=',
    'trusted comment: some file',
    'lmsdAwm/7UHKqfZqPId+2LcgRf2m6p1qUhj1GhnFCT5sAbKG/3+28S6rXHYcM0Lk9wTaCIGJqPd9yRZ2V54CBw==',
    '',
  ].join('\n'),
)
/** minisign -l */
export const oldForm = Buffer.from(
  [
    'untrusted comment: signature from minisign secret key',
    'RWRcaoh8yZiOc+BsBAi3mxCGjtbmRfvoiUcwwiiK0zVyOm7/CxURRkWLQX7CFdMRzJTniJmIryd/TIjFy1hCqE0xHR4ihcZaBgk=',
    'trusted comment: postrider 1.2.3',
    'WhgGilhhMiPd3FxHikr8vQx9xi7Qb+KnizAj+fpUUxLVxTJqia6TyvFLm3panZsDMSltmkiOX80LVt135oygCQ==',
    '',
  ].join('\n'),
)

export const strangeSums = Buffer.from('not sums\n')
export const strangeSignature = Buffer.from(
  [
    'untrusted comment: signature from minisign secret key',
    'RURcaoh8yZiOc59eNYlVmvflj3Kx3T/tWKsK5jLwzaQRGyT5xZlhwY+KBr0s5edj4whbQBZTzh//864cLORDuVkSrMXteXmnKgE=',
    'trusted comment: postrider 1.2.3',
    'nzxxU0YVMEsaJcbTh+xvIrNRmHW6epnywwOLlme1iKX1gcxIUi5WPJSMbX9T6GXl0nHee+/xAxjqV9ZqY3ahAg==',
    '',
  ].join('\n'),
)

export const good: SignedSums = {
  sums: Buffer.from(`${hash('deb')}  ${deb}\n${hash('x')}  SHA256SUMS.txt\n`),
  signature: Buffer.from(signature),
  publicKey: key,
  file: { name: deb, sha256: hash('deb') },
}
