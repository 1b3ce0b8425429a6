// The simulated internet: a name server, and a Postfix as the recipients' provider.

import { authenticate } from 'mailauth'
import { receivingPostfix, type ReceivingPostfix } from '../rig/postfix.ts'
import { fields, onTheWire } from '../rig/letter.ts'
import { opendkimVerify, pythonDkimVerify } from '../rig/verifiers.ts'
import { Names } from './names.ts'
import { LATER, NAMESERVER, PROVIDER, SERVER } from './network.ts'

/** Its exchanger takes mail at all times. */
export const PROVIDER_DOMAIN = 'elsewhere.example'
/** Its exchanger listens only while a test runs it: what is sent there waits in the queue until then. */
export const LATER_DOMAIN = 'later.example'

export interface World {
  names: Names
  provider: ReceivingPostfix
  close: () => Promise<void>
}

export async function startWorld(): Promise<World> {
  const names = await Names.serve(NAMESERVER)
  try {
    const provider = await postfix(PROVIDER_DOMAIN, PROVIDER)
    await names.publish('world', [
      ...exchanger(PROVIDER_DOMAIN, PROVIDER),
      ...exchanger(LATER_DOMAIN, LATER),
      // Whom "postrider doctor" asks for an answer.
      'gmail.com. IN MX 10 mx.elsewhere.example.',
    ])
    const close = async () => {
      await provider.stop()
      await names.close()
    }
    return { names, provider, close }
  } catch (error) {
    await names.close()
    throw error
  }
}

const exchanger = (domain: string, address: string): string[] => [
  `${domain}. IN MX 10 mx.${domain}.`,
  `mx.${domain}. IN A ${address}`,
]

/** A Postfix on port 25 of an address of the world. */
const postfix = (domain: string, address: string): Promise<ReceivingPostfix> =>
  receivingPostfix({
    domains: [domain],
    listen: { address, port: 25 },
    settings: { inet_interfaces: address },
  }).start()

/** Runs the exchanger of LATER_DOMAIN while `work` is done. */
export async function withLaterExchanger<T>(work: (later: ReceivingPostfix) => Promise<T>): Promise<T> {
  const later = await postfix(LATER_DOMAIN, LATER)
  try {
    return await work(later)
  } finally {
    await later.stop()
  }
}

/** What receivers make of a stored letter by the published records: two foreign DKIM verifiers, and SPF and DMARC. */
export async function judged(stored: Buffer, names: Names): Promise<Record<string, string | undefined>> {
  const letter = onTheWire(stored)
  const tags = new Map(
    (fields(letter, 'DKIM-Signature')[0] ?? '').split(';').map((tag) => {
      const [name, ...value] = tag.split('=')
      return [name!.trim(), value.join('=').trim()] as const
    }),
  )
  const [selector, domain] = [tags.get('s') ?? '', tags.get('d') ?? '']
  const [record = ''] = await names.txt(`${selector}._domainkey.${domain}`)
  const key = { selector, domain, record }
  const [opendkim, dkimpy, receiver] = await Promise.all([
    opendkimVerify(letter, [key]),
    pythonDkimVerify(letter, [key]),
    authenticate(letter, {
      ip: SERVER,
      helo: /^from (\S+)/.exec(fields(letter, 'Received')[0] ?? '')?.[1] ?? '',
      sender: (fields(letter, 'Return-Path')[0] ?? '').replace(/[<>]/g, ''),
      resolver: names.resolve,
    }),
  ])
  return {
    opendkim: opendkim.ok ? 'pass' : opendkim.detail,
    dkimpy: dkimpy.ok ? 'pass' : dkimpy.detail,
    spf: receiver.spf === false ? 'none' : receiver.spf.status.result,
    dmarc: receiver.dmarc === false ? 'none' : receiver.dmarc.status.result,
  }
}

export const ALL_PASS = { opendkim: 'pass', dkimpy: 'pass', spf: 'pass', dmarc: 'pass' }

export const messageIds = (letters: readonly Buffer[]): string[] =>
  letters.map((letter) => fields(onTheWire(letter), 'Message-ID')[0] ?? '')
