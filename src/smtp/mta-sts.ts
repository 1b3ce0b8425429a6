// Reads MTA-STS policies (RFC 8461): the MX hosts that may receive a domain's mail, and whether they need valid
// certificates.

export interface StsPolicy {
  mode: 'enforce' | 'testing' | 'none'
  /** Host patterns: "mx.example.org" or "*.example.org". */
  mx: string[]
  /** Seconds. */
  maxAge: number
}

const MAX_AGE = 31_557_600
const MAX_HOSTS = 100

/** Reads a policy file, or undefined if it is malformed (RFC 8461 §3.2). Lines end with LF or CRLF. */
export function parsePolicy(text: string): StsPolicy | undefined {
  const fields = text.split(/\r?\n/).flatMap((line) => {
    const [, key, value] = /^\s*([\w-]+)\s*:(.*)$/s.exec(line) ?? []
    return key === undefined || value === undefined ? [] : [[key.toLowerCase(), value.trim()] as const]
  })
  const first = (name: string): string | undefined => fields.find(([key]) => key === name)?.[1]
  const mode = first('mode')
  const age = first('max_age') ?? ''
  const maxAge = /^\d{1,10}$/.test(age) ? Number(age) : -1
  const mx = fields.filter(([key]) => key === 'mx').map(([, value]) => value.toLowerCase())
  if (first('version') !== 'STSv1' || maxAge < 0) return undefined
  if (mode !== 'enforce' && mode !== 'testing' && mode !== 'none') return undefined
  if (mode !== 'none' && mx.length === 0) return undefined
  return { mode, mx: mx.slice(0, MAX_HOSTS), maxAge: Math.min(maxAge, MAX_AGE) }
}

/** The id of the policy that a TXT record announces, or undefined unless exactly one record does (RFC 8461 §3.1). */
export function policyId(records: readonly string[]): string | undefined {
  const announcing = records.filter((record) => /^v=STSv1\s*;/.test(record))
  const [, id] = /;\s*id\s*=\s*([A-Za-z0-9]{1,32})\s*(?:;|$)/.exec(announcing[0] ?? '') ?? []
  return announcing.length === 1 ? id : undefined
}

/** Whether a policy allows a host. "*." matches exactly one label (RFC 8461 §4.1). */
export function allowsHost({ mx }: Pick<StsPolicy, 'mx'>, host: string): boolean {
  return mx.some((pattern) =>
    pattern.startsWith('*.')
      ? host.slice(host.indexOf('.') + 1) === pattern.slice(2) && host.includes('.')
      : host === pattern,
  )
}
