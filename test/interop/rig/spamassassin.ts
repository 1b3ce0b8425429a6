// SpamAssassin as a spam filter, many messages per process. It uses no DNS, or the test's DNS, where every name not set
// there does not exist, so blocklists answer "not listed". It sends no requests to the internet.

import { execFile } from 'node:child_process'
import { accessSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Judgement } from './rspamd.ts'

const PROGRAM = '/usr/bin/spamassassin'
const RULES = '/usr/share/spamassassin/20_head_tests.cf'
const TIMEOUT = 240_000

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

/** The rules that matched each message, and its score. Without `dnsPort`, only rules without DNS are used. */
export async function judgedBySpamassassin(letters: readonly Buffer[], dnsPort?: number): Promise<Judgement[]> {
  const home = await mkdtemp(join(tmpdir(), 'postrider-spam-'))
  try {
    const settings = [
      ...(dnsPort === undefined ? [] : ['dns_available yes', `dns_server [127.0.0.1]:${dnsPort}`]),
      // It learns nothing here and remembers nothing.
      'use_bayes 0',
      'clear_headers',
      'add_header all Judged _SCORE_ _TESTSSCORES(;)_',
      'fold_headers 0',
      'report_safe 0',
    ]
    await mkdir(join(home, 'letters'))
    const files = letters.map((_, n) => join(home, 'letters', String(n)))
    await Promise.all(letters.map((letter, n) => writeFile(files[n]!, letter)))
    const args = [
      ...(dnsPort === undefined ? ['-L'] : []),
      '-x',
      '-p',
      '/dev/null',
      ...settings.map((line) => `--cf=${line}`),
      ...files,
    ]
    const output = await new Promise<string>((resolve, reject) => {
      const options = {
        timeout: TIMEOUT,
        killSignal: 'SIGKILL',
        maxBuffer: 1 << 26,
        encoding: 'latin1',
        env: { HOME: home, PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
      } as const
      execFile(PROGRAM, args, options, (error, stdout, stderr) =>
        error ? reject(new Error(`spamassassin: ${stderr || error.message}`)) : resolve(stdout),
      )
    })
    const judged = [...output.matchAll(/^X-Spam-Judged: (\S+) (.*)$/gm)].map(([, score, rules]) => ({
      score: Number(score),
      rules: rules!
        .trim()
        .split(';')
        .map((rule) => rule.split('='))
        .map(([name = '', points]) => ({ name, score: Number(points) })),
    }))
    if (judged.length !== letters.length)
      throw new Error(`spamassassin judged ${judged.length} of ${letters.length}:\n${output.slice(0, 2000)}`)
    return judged
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}
