// The table of DANE cases, as zones, receiving servers and the expected result of an email. Unit tests use the kit's
// DNS and receiving servers. test/interop/dane.interop.ts uses real zones and servers, and compares with Postfix.
import { chain, issue, tlsaOf, type Issued } from './authority.ts'

/** How a receiving server behaves. Each has a separate address. */
export const EXCHANGERS = [
  'stranger',
  'other',
  'plain',
  'broken',
  'chained',
  'domain',
  'alone',
  'misnamed',
  'late',
] as const
export type ExchangerKind = (typeof EXCHANGERS)[number]

export interface Material {
  /** Certificate and key in PEM, leaf first, or undefined without TLS or if TLS fails. */
  shown: Record<ExchangerKind, { cert: string; key: string } | undefined>
  leaf: Record<'stranger' | 'other', Issued>
  authority: Issued
}

export interface DaneCase {
  row: number
  /** The recipient domain is LABEL.test. */
  label: string
  title: string
  /** Zones below test., which is signed itself. `optout`: signed by NSEC3 with opt-out spans. */
  zones: Record<string, 'signed' | 'optout' | 'unsigned'>
  /** "NAME TYPE VALUE". An address is the kind of a receiving server. */
  records: string[]
  /** Record sets whose signature is broken: "TYPE NAME". */
  bogus?: string[]
  /** Questions that the zone's server does not answer well. */
  fails?: Record<string, 'SERVFAIL' | 'drop'>
  expect: {
    /** Delivered, or the first two numbers of the enhanced code after 4. */
    result: 'delivered' | '7.5' | '7.4' | '4.3'
    /** The server that gets the email. */
    at?: string
    tls?: boolean
    proof?: 'none' | 'dane-ee' | 'dane-ta'
  }
  /** Why Postfix behaves differently, if so. */
  oracle?: string
}

const YEAR = 365 * 86_400_000

export function makeMaterial(): Material {
  const now = Date.now()
  const authority = issue({ subject: 'Authority of tests', ca: true })
  const stranger = issue({
    subject: 'stranger.invalid',
    names: ['stranger.invalid'],
    from: now - YEAR,
    until: now - 1000,
  })
  const other = issue({ subject: 'other.invalid', names: ['other.invalid'] })
  const named = (subject: string, names: string[], until = now + YEAR): Issued =>
    issue({ subject, names, by: authority, until, from: now - YEAR })
  const chained = named('chained', ['mx.r10.test', 'mx.r13b.test'])
  const domain = named('domain', ['r11.test'])
  const alone = named('alone', ['mx.r12.test', 'mx.r15.test'])
  const misnamed = named('misnamed', ['mx.elsewhere.test'])
  const late = named('late', ['mx.r14.test'], now - 1000)
  return {
    leaf: { stranger, other },
    authority,
    shown: {
      stranger: chain(stranger),
      other: chain(other),
      plain: undefined,
      broken: undefined,
      chained: chain(chained, authority),
      domain: chain(domain, authority),
      alone: chain(alone),
      misnamed: chain(misnamed, authority),
      late: chain(late, authority),
    },
  }
}

const PROVEN = { result: 'delivered', tls: true, proof: 'dane-ee' } as const
const AUTHORITY = { result: 'delivered', tls: true, proof: 'dane-ta' } as const
const ENCRYPTED = { result: 'delivered', tls: true, proof: 'none' } as const
const UNPROVEN = { result: '7.5' } as const
const NO_TLS = { result: '7.4' } as const

export function daneCases({ authority, leaf: { other, stranger } }: Material): DaneCase[] {
  const right = tlsaOf(3, 1, 1, stranger)
  const wrong = tlsaOf(3, 1, 1, other)
  const ta = tlsaOf(2, 1, 1, authority)
  const flipped = (record: string): string => record.replace(/[0-9a-f]{2}$/, (octet) => (octet === '00' ? '01' : '00'))
  /** A domain with one receiving server, mx.LABEL.test, and these TLSA records there. */
  const simple = (
    row: number,
    title: string,
    kind: ExchangerKind,
    tlsa: string[],
    expect: DaneCase['expect'],
    more: Partial<DaneCase> = {},
  ): DaneCase => {
    const label = more.label ?? `r${row}`
    const domain = `${label}.test`
    return {
      row,
      label,
      title,
      zones: { [domain]: 'signed' },
      expect: { at: `mx.${domain}`, ...expect },
      ...more,
      records: [
        `${domain} MX 10 mx.${domain}`,
        `mx.${domain} A ${kind}`,
        ...tlsa.map((each) => `_25._tcp.mx.${domain} TLSA ${each}`),
        ...(more.records ?? []),
      ],
    }
  }
  return [
    simple(1, 'an unsigned zone', 'stranger', [], ENCRYPTED, { zones: { 'r1.test': 'unsigned' } }),
    simple(2, 'a signed zone without TLSA', 'stranger', [], ENCRYPTED),
    simple(3, 'an opt-out denial', 'stranger', [], ENCRYPTED, { zones: { 'r3.test': 'optout' } }),
    simple(4, '3 1 1 matches a certificate of another name that has expired', 'stranger', [right], PROVEN),
    simple(5, 'two records, one matches', 'stranger', [wrong, right], PROVEN),
    simple(6, '3 0 1', 'stranger', [tlsaOf(3, 0, 1, stranger)], PROVEN, { label: 'r6a' }),
    simple(6, '3 1 2', 'stranger', [tlsaOf(3, 1, 2, stranger)], PROVEN, { label: 'r6b' }),
    simple(6, '3 0 0', 'stranger', [tlsaOf(3, 0, 0, stranger)], PROVEN, { label: 'r6c' }),
    simple(6, '3 1 0', 'stranger', [tlsaOf(3, 1, 0, stranger)], PROVEN, { label: 'r6d' }),
    simple(7, '3 1 1 does not match', 'stranger', [wrong], UNPROVEN),
    simple(8, 'STARTTLS is not offered', 'plain', [right], NO_TLS),
    simple(9, 'the handshake breaks', 'broken', [right], UNPROVEN),
    simple(10, '2 1 1, the leaf names the exchanger', 'chained', [ta], AUTHORITY),
    simple(11, '2 1 1, the leaf names the recipient domain', 'domain', [ta], AUTHORITY),
    simple(12, '2 0 0, the issuer is not shown', 'alone', [tlsaOf(2, 0, 0, authority)], AUTHORITY),
    simple(13, '2 1 1, the leaf has another name', 'misnamed', [ta], UNPROVEN),
    simple(14, '2 1 1, the leaf has expired', 'late', [ta], UNPROVEN),
    simple(15, '2 1 1, the issuer is not shown', 'alone', [ta], UNPROVEN),
    ...(['stranger', 'plain'] as const).map((kind, index) =>
      simple(
        16 + index,
        `usage 0 and 1, an unknown selector, a short digest, ${index === 0 ? 'with' : 'without'} STARTTLS`,
        kind,
        [tlsaOf(0, 1, 1, other), tlsaOf(1, 0, 1, other), right.replace('3 1 1', '3 7 1'), right.slice(0, -2)],
        index === 0 ? ENCRYPTED : NO_TLS,
      ),
    ),
    simple(18, 'TLSA is answered by SERVFAIL', 'stranger', [right], UNPROVEN, {
      fails: { 'TLSA _25._tcp.mx.r18.test': 'SERVFAIL' },
    }),
    simple(19, 'the signature of TLSA is broken', 'stranger', [right], UNPROVEN, {
      bogus: ['TLSA _25._tcp.mx.r19.test'],
    }),
    simple(20, 'questions for TLSA are dropped', 'stranger', [right], UNPROVEN, {
      fails: { 'TLSA _25._tcp.mx.r20.test': 'drop' },
    }),
    simple(21, 'an unsigned address, TLSA is answered by SERVFAIL', 'stranger', [], ENCRYPTED, {
      label: 'r21a',
      zones: { 'r21a.test': 'unsigned' },
      fails: { 'TLSA _25._tcp.mx.r21a.test': 'SERVFAIL' },
    }),
    simple(21, 'an unsigned address with TLSA that does not match', 'stranger', [wrong], ENCRYPTED, {
      label: 'r21b',
      zones: { 'r21b.test': 'unsigned' },
    }),
    ...[right, wrong].map((record, index): DaneCase => {
      const label = `r22${'ab'[index]}`
      return {
        row: 22,
        label,
        title: `an unsigned MX, a signed exchanger that ${index === 0 ? 'matches' : 'does not match'}`,
        zones: { [`${label}.test`]: 'unsigned', [`${label}x.test`]: 'signed' },
        records: [
          `${label}.test MX 10 mx.${label}x.test`,
          `mx.${label}x.test A stranger`,
          `_25._tcp.mx.${label}x.test TLSA ${record}`,
        ],
        expect: index === 0 ? { ...PROVEN, at: `mx.${label}x.test` } : UNPROVEN,
      }
    }),
    simple(
      23,
      'the first exchanger does not match, the second does',
      'stranger',
      [wrong],
      { ...PROVEN, at: 'mx2.r23.test' },
      {
        records: ['r23.test MX 20 mx2.r23.test', 'mx2.r23.test A other', `_25._tcp.mx2.r23.test TLSA ${wrong}`],
      },
    ),
    simple(
      24,
      'the first has no STARTTLS, the second is signed without TLSA',
      'plain',
      [right],
      { ...ENCRYPTED, at: 'mx2.r24.test' },
      {
        records: ['r24.test MX 20 mx2.r24.test', 'mx2.r24.test A other'],
      },
    ),
    ...['end', 'alias'].flatMap((place, which) =>
      [right, wrong].map((record, index): DaneCase => {
        const label = `r${25 + which}${'ab'[index]}`
        const at = `mx.${label}.test`
        return {
          row: 25 + which,
          label,
          title: `a signed alias, TLSA at its ${place === 'end' ? 'end' : 'own name alone'} ${index === 0 ? 'matches' : 'does not match'}`,
          zones: { [`${label}.test`]: 'signed', [`${label}x.test`]: 'signed' },
          records: [
            `${label}.test MX 10 ${at}`,
            `${at} CNAME real.${label}x.test`,
            `real.${label}x.test A stranger`,
            `_25._tcp.${place === 'end' ? `real.${label}x.test` : at} TLSA ${record}`,
          ],
          expect: index === 0 ? { ...PROVEN, at } : UNPROVEN,
        }
      }),
    ),
    ...(['signed', 'unsigned'] as const).map((state, index): DaneCase => {
      const label = `r27${'ab'[index]}`
      return simple(
        27,
        `TLSA is an alias into a zone that is ${state}, and does not match`,
        'stranger',
        [],
        index === 0 ? UNPROVEN : ENCRYPTED,
        {
          label,
          zones: { [`${label}.test`]: 'signed', [`${label}x.test`]: state },
          records: [`_25._tcp.mx.${label}.test CNAME tlsa.${label}x.test`, `tlsa.${label}x.test TLSA ${wrong}`],
        },
      )
    }),
    simple(28, 'SHA2-256 right, SHA2-512 wrong', 'stranger', [right, flipped(tlsaOf(3, 1, 2, stranger))], UNPROVEN, {
      label: 'r28a',
    }),
    simple(28, 'SHA2-256 wrong, SHA2-512 right', 'stranger', [flipped(right), tlsaOf(3, 1, 2, stranger)], PROVEN, {
      label: 'r28b',
    }),
    {
      row: 29,
      label: 'r29',
      title: 'no MX, the domain itself is signed, and does not match',
      zones: { 'r29.test': 'signed' },
      records: ['r29.test A stranger', `_25._tcp.r29.test TLSA ${wrong}`],
      expect: UNPROVEN,
    },
    simple(
      30,
      'the MX records are bogus',
      'stranger',
      [right],
      { result: '4.3' },
      { label: 'r30a', bogus: ['MX r30a.test'] },
    ),
    simple(
      30,
      'the address is bogus',
      'stranger',
      [right],
      { result: '4.3' },
      { label: 'r30b', bogus: ['A mx.r30b.test'] },
    ),
  ]
}
