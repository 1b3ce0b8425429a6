// Two foreign judges of a DKIM signature (RFC 6376), offline: OpenDKIM in C and dkimpy in Python. Neither shares a line of
// code with Postrider or with mailauth, so where all three agree the signature is right.

import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testPublicKeys, type DkimKey } from './opendkim.ts'
import { PROGRAMS } from './sandbox.ts'

export { missing } from './sandbox.ts'
export type { DkimKey } from './opendkim.ts'

export interface Judgement {
  /** There is a signature, and every one that was judged holds. */
  ok: boolean
  /** What the judge printed. */
  detail: string
}

async function judge(
  mail: Buffer,
  files: (dir: string) => Record<string, string>,
  command: (dir: string) => [string, string[]],
  verdict: (code: number, output: string) => boolean,
): Promise<Judgement> {
  const dir = await mkdtemp(join(tmpdir(), 'postrider-judge-'))
  try {
    await writeFile(join(dir, 'letter.eml'), mail)
    for (const [name, content] of Object.entries(files(dir))) await writeFile(join(dir, name), content)
    const [program, args] = command(dir)
    return await new Promise<Judgement>((resolve) => {
      execFile(program, args, { timeout: 30_000, killSignal: 'SIGKILL' }, (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
        // OpenDKIM reports each milter callback too; only the verdict lines tell anything.
        const lines = (stdout + stderr).split('\n').filter((line) => !line.includes(' returned SMFIS_'))
        const spoken = lines.join('\n').replaceAll(`${dir}/`, '').trim()
        // A program that could not be run at all says so only in the error.
        const detail = code === -1 && error ? `${error.message} ${spoken}`.trim() : spoken
        resolve({ ok: verdict(code, detail), detail })
      })
    })
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** OpenDKIM in test mode. A letter without a signature is not ok, though OpenDKIM itself would accept it. */
export async function opendkimVerify(mail: Buffer, keys: DkimKey[]): Promise<Judgement> {
  return await judge(
    mail,
    (dir) => ({ 'keys.txt': testPublicKeys(keys), 'od.conf': `Mode v\nTestPublicKeys ${join(dir, 'keys.txt')}\n` }),
    (dir) => [PROGRAMS.opendkim, ['-vv', '-x', join(dir, 'od.conf'), '-t', join(dir, 'letter.eml')]],
    (code, output) => code === 0 && /dkim=pass/.test(output) && !/dkim=(?!pass)/.test(output),
  )
}

/** dkimpy, every signature of the letter in turn. */
export async function pythonDkimVerify(mail: Buffer, keys: DkimKey[]): Promise<Judgement> {
  const names = keys.map((k) => [`${k.selector}._domainkey.${k.domain}`.toLowerCase(), k.record])
  return await judge(
    mail,
    () => ({ 'keys.json': JSON.stringify(Object.fromEntries(names)) }),
    // -I: neither the caller's PYTHONPATH nor the current directory decides which dkimpy judges.
    (dir) => {
      const script = join(import.meta.dirname, 'dkim-verify.py')
      return [PROGRAMS.python, ['-I', script, join(dir, 'letter.eml'), join(dir, 'keys.json')]]
    },
    (code) => code === 0,
  )
}
