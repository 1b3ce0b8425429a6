// What dkim-signer exports; it ships no types.
declare module 'dkim-signer' {
  import type { KeyObject } from 'node:crypto'
  export function DKIMSign(
    email: string,
    options: { privateKey: KeyObject | string; domainName: string; keySelector: string; headerFieldNames: string },
  ): string
  /** The forms of RFC 6376 §3.4, which the signer takes from here each time. */
  export const DKIMCanonicalizer: {
    relaxedBody: (body: string) => string
    relaxedHeaders: (headers: string, fieldNames: string) => { headers: string; fieldNames: string }
  }
}
