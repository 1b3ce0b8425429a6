// Prompts on a real terminal: a password is not shown, two different ones are rejected, and Ctrl-C prints a message.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { withPrograms } from './rig/need.ts'
import { makeInstallation } from '../kit/installation.ts'

const BUILT = join(import.meta.dirname, '../../dist/postrider')
const PYTHON = '/usr/bin/python3'

/** Gives a command a terminal; types each answer once its question stands there; prints what the terminal showed. */
const DRIVER = `
import os, pty, re, sys, select, signal, time
answers = sys.argv[2].split('|')
pid, fd = pty.fork()
if pid == 0:
    os.chdir(sys.argv[1])
    os.execv(sys.argv[3], sys.argv[3:])
shown = b''
seen = 0
end = time.time() + 60
while time.time() < end:
    ready, _, _ = select.select([fd], [], [], 1)
    if ready:
        try:
            chunk = os.read(fd, 4096)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
        if answers and re.sub(rb'\\x1b\\[[0-9;]*[A-Za-z]', b'', shown[seen:]).rstrip().endswith((b':', b']')):
            seen = len(shown)
            answer = answers.pop(0)
            os.write(fd, b'\\x03' if answer == '^C' else answer.encode() + b'\\r')
if time.time() >= end:
    os.kill(pid, signal.SIGKILL)
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status))
sys.stdout.write(shown.decode(errors='replace'))
`

withPrograms(
  'questions on a terminal',
  [PYTHON, BUILT].filter((path) => !existsSync(path)),
  () => {
    let folder: string
    before(() => {
      folder = mkdtempSync(join(tmpdir(), 'postrider-prompts-'))
      writeFileSync(join(folder, 'postrider.toml'), `hostname = "mx.here.test"\ndata_dir = "${join(folder, 'data')}"\n`)
      writeFileSync(join(folder, 'driver.py'), DRIVER)
      makeInstallation(join(folder, 'data'))
      execFileSync(BUILT, ['--config', 'postrider.toml', 'user', 'add', 'ann@here.test'], { cwd: folder })
    })
    after(() => rmSync(folder, { recursive: true, force: true }))

    function on(answers: string[], ...args: string[]): { code: number; shown: string } {
      const command = [join(folder, 'driver.py'), folder, answers.join('|'), BUILT, ...args]
      const out = execFileSync(PYTHON, command, { encoding: 'utf8', timeout: 90_000 })
      const [code, ...lines] = out.split('\n')
      return { code: Number(code), shown: lines.join('\n') }
    }
    const passwd = ['--config', 'postrider.toml', 'user', 'passwd', 'ann@here.test']

    test('the prompt requires a new password twice and does not show it', () => {
      const { code, shown } = on(['a long secret', 'a long secret'], ...passwd)
      assert.equal(code, 0, shown)
      assert.match(shown, /New password \(at least 10 characters\): [\s\S]*Repeat the password: /)
      assert.match(shown, /Changed the password of ann@here\.test\./)
      assert.doesNotMatch(shown, /secret/)
    })

    test('keeps the password after different passwords, a short password or Ctrl-C, and reports it', () => {
      for (const [answers, sentence] of [
        [
          ['a long secret', 'another secret'],
          /The passwords do not match; nothing was changed\. Run the command again\./,
        ],
        [['short', 'short'], /The password must have at least 10 characters\./],
        [['^C'], /Nothing was changed\./],
      ] as const) {
        const { code, shown } = on([...answers], ...passwd)
        assert.notEqual(code, 0)
        assert.match(shown, sentence)
        assert.doesNotMatch(shown, /\bat .*node:|AbortError/)
      }
    })

    test('user remove prompts for confirmation, and removes the user only after yes or with --yes', () => {
      const config = ['--config', 'postrider.toml']
      execFileSync(BUILT, [...config, 'user', 'add', 'ben@here.test'], { cwd: folder })
      const removal = [...config, 'user', 'remove', 'ben@here.test']
      for (const answer of ['no', '', '^C']) {
        const { code, shown } = on([answer], ...removal)
        assert.notEqual(code, 0)
        assert.match(shown, /ben@here\.test is removed permanently[^]*Nothing was changed\./)
      }
      const { code, shown } = on(['yes'], ...removal)
      assert.equal(code, 0, shown)
      assert.match(shown, /Removed ben@here\.test\./)
      execFileSync(BUILT, [...config, 'user', 'add', 'ben@here.test'], { cwd: folder })
      assert.doesNotMatch(on([], ...removal, '--yes').shown, /Continue\?/)
    })

    test('Ctrl-C at a prompt of init writes no configuration', () => {
      const { code, shown } = on(['here.test', '^C'], '--config', 'new.toml', 'init')
      assert.notEqual(code, 0)
      assert.match(shown, /Nothing was changed\./)
      assert.doesNotMatch(shown, /AbortError|node:/)
      assert.ok(!existsSync(join(folder, 'new.toml')))
    })
  },
)
