// SpamAssassin as a judge of one letter. It asks the test's DNS as it would ask the world, where every name not set
// there does not exist: blocklists answer "not listed", and nothing leaves this machine.

import { execFile } from 'node:child_process'
import { accessSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const PROGRAM = '/usr/bin/spamassassin'
const RULES = '/usr/share/spamassassin/20_head_tests.cf'

export function missingSpamassassin(): string[] {
  return [PROGRAM, RULES].filter((path) => {
    try {
      accessSync(path)
      return false
    } catch {
      return true
    }
  })
}

/** The rules that fired, by name. */
export async function firedRules(letter: Buffer, dnsPort: number): Promise<string[]> {
  const home = await mkdtemp(join(tmpdir(), 'postrider-spam-'))
  try {
    const settings = [
      'dns_available yes',
      `dns_server [127.0.0.1]:${dnsPort}`,
      // It learns nothing here and remembers nothing.
      'use_bayes 0',
      'clear_headers',
      'add_header all Rules _TESTS(;)_',
      'fold_headers 0',
      'report_safe 0',
    ]
    const args = ['-x', '-p', '/dev/null', ...settings.map((line) => `--cf=${line}`)]
    const output = await new Promise<string>((resolve, reject) => {
      const options = {
        timeout: 60_000,
        killSignal: 'SIGKILL',
        maxBuffer: 1 << 24,
        env: { HOME: home, PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
      } as const
      const child = execFile(PROGRAM, args, options, (error, stdout, stderr) =>
        error ? reject(new Error(`spamassassin: ${stderr || error.message}`)) : resolve(stdout),
      )
      child.stdin!.on('error', () => {}).end(letter)
    })
    const header = /^X-Spam-Rules: (.*)$/m.exec(output)
    if (!header) throw new Error(`spamassassin judged nothing:\n${output.slice(0, 2000)}`)
    return header[1]!.trim().split(';')
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}
