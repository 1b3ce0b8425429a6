// The exports of dkim-signer. The package has no types of its own.
declare module 'dkim-signer' {
  import type { KeyObject } from 'node:crypto'
  export function DKIMSign(
    email: string,
    options: { privateKey: KeyObject | string; domainName: string; keySelector: string; headerFieldNames: string },
  ): string
  /** The canonical forms of RFC 6376 §3.4. The signer looks them up here at each call. */
  export const DKIMCanonicalizer: {
    relaxedBody: (body: string) => string
    relaxedHeaders: (headers: string, fieldNames: string) => { headers: string; fieldNames: string }
  }
}
