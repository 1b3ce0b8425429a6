// The setup of a fresh clone with any Node version of the machine: `npm run` and `npm start` use the Node version in
// the lock file, and the printed curl command sends an email with a valid signature to the sandbox.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { test } from 'node:test'
import { withPrograms } from './rig/need.ts'
import { Sandbox, until } from './rig/sandbox.ts'

const ROOT = join(import.meta.dirname, '../..')

/** The PATH of a login shell, without the directories that npm added for this run. */
const PATH = (process.env['PATH'] ?? '')
  .split(delimiter)
  .filter((folder) => !folder.split('/').some((part) => part === 'node_modules' || part === 'node-gyp-bin'))
  .join(delimiter)

const found = (name: string): string | undefined =>
  PATH.split(delimiter)
    .map((folder) => join(folder, name))
    .find((file) => existsSync(file))

const ENVIRONMENT = { PATH, HOME: process.env['HOME'] }
const TIMEOUT = 60_000

function run(program: string, args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { cwd: ROOT, env: ENVIRONMENT, timeout: TIMEOUT, killSignal: 'SIGKILL' } as const
    execFile(program, args, options, (error, stdout, stderr) =>
      error ? reject(new Error(`${program} ${args.join(' ')}: ${error.message}\n${stderr}`)) : resolve(stdout.trim()),
    )
  })
}

const absent = ['node', 'npm', 'curl'].filter((name) => found(name) === undefined)

withPrograms(`npm on the machine’s own Node (${absent.length === 0 ? found('node') : 'none'})`, absent, () => {
  test('npm run uses the Node version of the lock file', async (context) => {
    const { optionalDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      optionalDependencies: Record<string, string>
    }
    const [pinned] = Object.values(optionalDependencies)
    context.diagnostic(`node on this machine: ${await run('node', ['--version'])}`)
    assert.equal(await run('npm', ['run', '--silent', 'node', '--', '--version']), `v${pinned}`)
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }
    assert.equal(await run('npm', ['run', '--silent', 'postrider', '--', '--version']), version)
  })

  test('the curl command printed by npm start sends an email that passes DKIM, and Ctrl-C deletes all data', async () => {
    const box = new Sandbox('npm')
    try {
      // env, because the rig gives a daemon nothing but PATH, and this one must not see npm's.
      const ports = ['--http', '127.0.0.1:0', '--smtp', '127.0.0.1:0']
      const start = [
        `PATH=${PATH}`,
        `HOME=${box.dir}`,
        `TMPDIR=${box.dir}`,
        'npm',
        '--prefix',
        ROOT,
        'start',
        '--',
        ...ports,
      ]
      const sandbox = box.daemon('/usr/bin/env', start, 'output')
      const output = (): string => box.read('output')
      const data = (): string[] => readdirSync(box.dir).filter((name) => name.startsWith('postrider-'))
      const printed = async (pattern: RegExp, what: string): Promise<string> => {
        let match: RegExpExecArray | null = null
        await until(
          () => {
            match = pattern.exec(output())
            if (match === null && !sandbox.alive()) throw new Error(`npm start ended:\n${output()}`)
            return match !== null
          },
          30_000,
          () => `${what} did not come:\n${output()}`,
        )
        return match![0]
      }
      const curl = await printed(/^curl .*$/m, 'the curl line')
      const answer = JSON.parse(await run('/bin/sh', ['-c', curl])) as {
        data: { attributes: { status: string; message_id: string } }
      }
      assert.equal(answer.data.attributes.status, 'queued')
      const received = await printed(/^.*\bsandbox_message_received: .*$/m, 'the received mail')
      assert.match(received, /dkim\W+pass/)
      assert.equal(data().length, 1)

      // A terminal's Ctrl-C reaches npm and the program alike.
      process.kill(-sandbox.pid, 'SIGINT')
      await until(
        () => !sandbox.alive(),
        12_000,
        () => `it does not end:\n${output()}`,
      )
      assert.match(output(), /stopped/)
      assert.deepEqual(data(), [], 'the temporary data directory stays behind')
    } finally {
      await box.close()
    }
  })
})
