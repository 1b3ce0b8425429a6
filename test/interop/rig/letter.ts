// A delivered message and its verifiers: four DKIM verifiers that share no code, and Python's email parser.

import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import type { TestDns } from '../../kit/zone.ts'
import { PROGRAMS } from './sandbox.ts'
import { opendkimVerify, perlDkimVerify, pythonDkimVerify, type DkimKey } from './verifiers.ts'

/** A stored message with its stored line ends: a maildir uses LF. */
export const onTheWire = (stored: Buffer): Buffer =>
  Buffer.from(stored.toString('latin1').replace(/\r?\n/g, '\r\n'), 'latin1')

/** The values of a header field, unfolded. */
export function fields(letter: Buffer, name: string): string[] {
  const head = letter.toString('latin1').split('\r\n\r\n', 1)[0]!
  const wanted = `${name.toLowerCase()}:`
  return head
    .replace(/\r\n(?=[ \t])/g, '')
    .split('\r\n')
    .filter((line) => line.toLowerCase().startsWith(wanted))
    .map((line) => line.slice(wanted.length).trim())
}

/** The message with this Message-ID. */
export function withMessageId(letters: readonly Buffer[], messageId: string): Buffer | undefined {
  const stored = letters.find((letter) => letter.includes(`\nMessage-ID: ${messageId}`))
  return stored && onTheWire(stored)
}

/** Each DKIM verifier by name, with its result: "pass" or its own output. */
export async function verdicts(letter: Buffer, key: DkimKey, dns: TestDns): Promise<Record<string, string>> {
  const [opendkim, dkimpy, mailDkim, mailauth] = await Promise.all([
    opendkimVerify(letter, [key]),
    pythonDkimVerify(letter, [key]),
    perlDkimVerify(letter, [key]),
    dkimVerify(letter, { resolver: mailauthResolver(dns) }),
  ])
  const { status } = mailauth.results[0] ?? { status: { result: 'none' } }
  return {
    opendkim: opendkim.ok ? 'pass' : opendkim.detail,
    dkimpy: dkimpy.ok ? 'pass' : dkimpy.detail,
    mailDkim: mailDkim.ok ? 'pass' : mailDkim.detail,
    mailauth: status.result === 'pass' ? 'pass' : JSON.stringify(status),
  }
}

export const ALL_PASS = { opendkim: 'pass', dkimpy: 'pass', mailDkim: 'pass', mailauth: 'pass' }

/** The test's DNS in the interface that mailauth expects. */
export function mailauthResolver({
  resolver,
}: TestDns): (name: string, type: string) => Promise<string[] | string[][]> {
  return async (name, type) => {
    if (type === 'TXT') {
      const answer = await resolver.txt(name)
      if (answer.kind === 'found') return answer.records.map((text) => [text])
    } else if (type === 'A') {
      const answer = await resolver.a(name)
      if (answer.kind === 'found') return answer.records
    }
    throw Object.assign(new Error(`no ${type} of ${name}`), { code: 'ENOTFOUND' })
  }
}

export interface Parsed {
  defects: string[]
  /** Names of the header fields, lower case, top down. */
  names: string[]
  subject: string
  date: string
  from: [name: string, address: string][]
  to: [name: string, address: string][]
  reply_to: [name: string, address: string][]
  type: string
  /** Decoded content by media type. */
  parts: Record<string, string>
  /** The length of the longest line in bytes. */
  longest: number
  ascii: boolean
}

/** The content of a message according to Python's email package. */
export async function parsed(letter: Buffer): Promise<Parsed> {
  const dir = await mkdtemp(join(tmpdir(), 'postrider-letter-'))
  try {
    const file = join(dir, 'letter.eml')
    await writeFile(file, letter)
    const output = await new Promise<string>((resolve, reject) => {
      const args = ['-I', join(import.meta.dirname, 'letter.py'), file]
      const limits = { timeout: 30_000, killSignal: 'SIGKILL', maxBuffer: 1 << 24 } as const
      execFile(PROGRAMS.python, args, limits, (error, stdout, stderr) =>
        error ? reject(new Error(`letter.py: ${stderr || error.message}`)) : resolve(stdout),
      )
    })
    return (JSON.parse(output) as [Parsed])[0]
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}
