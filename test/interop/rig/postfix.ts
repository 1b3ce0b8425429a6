// A real Postfix on loopback, private to the test that starts it: own configuration, queue, data, log and mail store
// under one temporary directory, nothing read from /etc/postfix, nothing on port 25.
//
// Two shapes. The receiving one is a mail exchanger as Postrider meets them: STARTTLS, an OpenDKIM that verifies, and
// refusals or greylisting on request. The relaying one takes mail on loopback, has OpenDKIM sign it and passes all of
// it to one port: the benchmark's peer.

import { execFileSync } from 'node:child_process'
import { chownSync, mkdirSync } from 'node:fs'
import { readdir, readFile, stat, unlink } from 'node:fs/promises'
import { greylist, type Greylist } from './greylist.ts'
import { signingMilter, verifyingMilter, type DkimKey, type VerifyingMilter } from './opendkim.ts'
import { NOBODY, runPostfix, type Listen, type Settings } from './instance.ts'
import { missing, PROGRAMS, Sandbox, until } from './sandbox.ts'

export { missing } from './sandbox.ts'
export type { DkimKey } from './opendkim.ts'

/** Opens a sandbox, and closes it again when the start fails half way. */
async function sandboxed<T>(name: string, start: (box: Sandbox) => Promise<T>): Promise<T> {
  const absent = missing()
  if (absent.length > 0) throw new Error(`not on this machine: ${absent.join(', ')}; run test/interop/setup.sh`)
  const box = new Sandbox(name)
  try {
    return await start(box)
  } catch (error) {
    await box.close()
    throw error
  }
}

/**
 * Postfix at its best for a benchmark. Its caution with one client and one destination is lifted, and its processes are
 * not replaced while it is measured.
 */
export const FULL_SPEED: Settings = {
  default_process_limit: 100,
  max_use: 10_000,
  initial_destination_concurrency: 50,
  default_destination_concurrency_limit: 50,
  smtpd_client_connection_count_limit: 0,
  in_flow_delay: 0,
}

export interface ReceivingOptions {
  domains: string[]
  /** Also the name in Authentication-Results; default mx.<first domain>. */
  hostname?: string
  /** Offer STARTTLS with a certificate made on the spot. Default true. */
  tls?: boolean
  opendkimVerify?: boolean
  /** Local part -> the reply to its RCPT, in any of the domains. */
  rejectUsers?: Record<string, string>
  greylist?: Greylist
  /** Where it listens. Exchangers of one test share a port, as the world's share port 25, on addresses of their own. */
  listen?: Listen
  /** Anything else in main.cf, e.g. `{ message_size_limit: 10000, smtpd_tls_security_level: 'encrypt' }`. */
  settings?: Settings
}

export interface ReceivingPostfix {
  port: number
  /** Process group of its daemons, whose CPU time the benchmark adds up. */
  group: number
  /** How many letters lie in the mailbox. */
  count: () => Promise<number>
  /** Empties the mailbox. */
  clear: () => Promise<void>
  /** The certificate in PEM, for a client that is to trust it. */
  certificate: string
  maildir: () => Promise<Buffer[]>
  waitFor: (count: number, timeoutMs?: number) => Promise<Buffer[]>
  /** The keys that OpenDKIM uses, empty at first. */
  setKeys: (keys: DkimKey[]) => Promise<void>
  /** Postfix's log so far; after stop() the whole of it. */
  log: () => string
  stop: () => Promise<void>
}

/** A receiving server that accepts every address of its domains into one maildir. */
export function receivingPostfix(options: ReceivingOptions): { start: () => Promise<ReceivingPostfix> } {
  const hostname = options.hostname ?? `mx.${options.domains[0]}`
  const start = async (box: Sandbox): Promise<ReceivingPostfix> => {
    const settings: Settings = {
      virtual_mailbox_domains: options.domains.join(' '),
      virtual_mailbox_base: box.path('store'),
      virtual_mailbox_maps: 'static:box/',
      virtual_mailbox_limit: 0,
      virtual_uid_maps: `static:${NOBODY}`,
      virtual_gid_maps: `static:${NOBODY}`,
      message_size_limit: 52_428_800,
      // Loopback gets no privilege here: to this exchanger Postrider is a stranger.
      mynetworks: '192.0.2.1/32',
      smtpd_relay_restrictions: 'reject_unauth_destination',
    }
    mkdirSync(box.path('store'))
    chownSync(box.path('store'), NOBODY, NOBODY)

    const rules: string[] = []
    if (options.rejectUsers) {
      const table = Object.entries(options.rejectUsers).map(([user, reply]) => `${user}@ ${reply}\n`)
      rules.push(`check_recipient_access texthash:${box.write('reject', table.join(''))}`)
    }
    const grey = options.greylist && (await greylist(options.greylist))
    if (grey) rules.push(`check_policy_service inet:127.0.0.1:${grey.port}`)
    settings['smtpd_recipient_restrictions'] = rules.join(', ')

    let certificate = ''
    if (options.tls ?? true) {
      certificate = makeCertificate(box, hostname)
      settings['smtpd_tls_security_level'] = 'may'
      settings['smtpd_tls_chain_files'] = `${box.path('tls.key')}, ${box.path('tls.crt')}`
      settings['smtpd_tls_received_header'] = 'yes'
      settings['smtpd_tls_loglevel'] = 1
    }
    let milter: VerifyingMilter | undefined
    if (options.opendkimVerify) {
      milter = await verifyingMilter(box, hostname)
      settings['smtpd_milters'] = milter.address
      // A milter that is away must be seen as a deferral, not as mail without Authentication-Results.
      settings['milter_default_action'] = 'tempfail'
    }
    const running = await runPostfix(box, hostname, { ...settings, ...options.settings }, options.listen)
    const { port, masterPid, log } = running
    const maildir = () => readMaildir(box.path('store/box/new'))
    return {
      port,
      group: masterPid,
      certificate,
      count: async () => (await readdir(box.path('store/box/new')).catch(() => [])).length,
      async clear() {
        for (const name of await readdir(box.path('store/box/new')).catch(() => []))
          await unlink(box.path('store/box/new', name))
      },
      maildir,
      async waitFor(count, timeoutMs = 20_000) {
        let mails: Buffer[] = []
        const arrived = async () => (mails = await maildir()).length >= count
        await until(arrived, timeoutMs, () => `${mails.length} of ${count} mails within ${timeoutMs} ms:\n${log()}`)
        return mails
      },
      async setKeys(keys) {
        if (!milter) throw new Error('no OpenDKIM here: opendkimVerify is off')
        await milter.setKeys(keys)
      },
      log,
      async stop() {
        log()
        grey?.close()
        await box.close()
      },
    }
  }
  return { start: () => sandboxed('receiving', start) }
}

/**
 * Delivered letters, oldest first: LF line ends and Return-Path, X-Original-To, Delivered-To on top, as virtual(8)
 * stores.
 */
async function readMaildir(dir: string): Promise<Buffer[]> {
  const names = await readdir(dir).catch(() => [])
  const times = new Map<string, number>()
  for (const name of names) times.set(name, (await stat(`${dir}/${name}`)).mtimeMs)
  const order = names.toSorted((a, b) => times.get(a)! - times.get(b)! || (a < b ? -1 : 1))
  return await Promise.all(order.map((name) => readFile(`${dir}/${name}`)))
}

function makeCertificate(box: Sandbox, hostname: string): string {
  const shape = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
  const files = ['-keyout', box.path('tls.key'), '-out', box.path('tls.crt')]
  const names = ['-subj', `/CN=${hostname}`, '-addext', `subjectAltName=DNS:${hostname}`]
  execFileSync(PROGRAMS.openssl, [...shape, ...files, ...names], { stdio: 'pipe' })
  return box.read('tls.crt')
}

export interface RelayingOptions {
  sinkPort: number
  signDomain: string
  settings?: Settings
}

export interface RelayingPostfix {
  port: number
  /** Process groups of Postfix and of OpenDKIM, whose CPU time the benchmark adds up. */
  groups: number[]
  /** The record under which the signatures verify. */
  key: DkimKey
  /** Letters still in the queue. */
  queued: () => Promise<number>
  /** Postfix's log so far; after stop() the whole of it. */
  log: () => string
  stop: () => Promise<void>
}

/** Takes anything on loopback, signs it, hands it to 127.0.0.1:sinkPort. Durable as ever: fsync before 250. */
export function relayingPostfix(options: RelayingOptions): { start: () => Promise<RelayingPostfix> } {
  const start = async (box: Sandbox): Promise<RelayingPostfix> => {
    const selector = 'peer'
    const keyFile = box.path('dkim.key')
    const openssl = (...args: string[]) => execFileSync(PROGRAMS.openssl, args, { stdio: 'pipe' })
    openssl('genpkey', '-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048', '-out', keyFile)
    const pub = openssl('pkey', '-in', keyFile, '-pubout', '-outform', 'DER').toString('base64')
    const milter = await signingMilter(box, { domain: options.signDomain, selector, keyFile })
    const { port, masterPid, log } = await runPostfix(box, `relay.${options.signDomain}`, {
      relayhost: `[127.0.0.1]:${options.sinkPort}`,
      smtp_dns_support_level: 'disabled',
      smtpd_relay_restrictions: 'permit_mynetworks, reject',
      smtpd_milters: milter.address,
      // Never unsigned: with the milter away mail is refused for now, and the benchmark would fail instead of flatter.
      milter_default_action: 'tempfail',
      ...FULL_SPEED,
      ...options.settings,
    })
    const queued = async () => {
      const names = ['incoming', 'active', 'deferred', 'maildrop'].map((name) => box.path('spool', name))
      const lists = await Promise.all(names.map((dir) => readdir(dir, { recursive: true, withFileTypes: true })))
      return lists.flat().filter((entry) => entry.isFile()).length
    }
    return {
      port,
      groups: [masterPid, milter.daemon().pid],
      key: { selector, domain: options.signDomain, record: `v=DKIM1; k=rsa; p=${pub}` },
      queued,
      log,
      async stop() {
        log()
        await box.close()
      },
    }
  }
  return { start: () => sandboxed('relaying', start) }
}
