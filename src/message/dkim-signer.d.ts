// What dkim-signer exports; it ships no types.
declare module 'dkim-signer' {
  import type { KeyObject } from 'node:crypto'
  export function DKIMSign(
    email: string,
    options: { privateKey: KeyObject | string; domainName: string; keySelector: string; headerFieldNames: string },
  ): string
}
