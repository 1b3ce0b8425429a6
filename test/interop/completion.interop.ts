// The completion scripts in real shells: each runs interactively on a terminal, a line is typed with the Tab key, and
// the resulting arguments of the command are checked.
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { withPrograms } from './rig/need.ts'

const SOURCE = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))
const PROGRAM = `${process.execPath} ${SOURCE}`
const LIMIT = 30_000

interface Shell {
  start: string
  /** Lines that load the script, define "postrider", which completes or prints its words, and set the prompt. */
  prepare: (script: string) => string[]
}

const SHELLS: Record<string, Shell> = {
  bash: {
    start: 'bash --norc --noprofile -i',
    prepare: (script) => [
      `postrider() { case "$1$3" in completion--) ${PROGRAM} "$@" ;; *) printf 'GOT'; printf '<%s>' "$@"; echo ;; esac; }`,
      `source ${script}`,
      `PS1='READY''> '`,
    ],
  },
  zsh: {
    start: 'zsh -f -i',
    prepare: (script) => [
      `unsetopt zle_bracketed_paste 2>/dev/null; autoload -Uz compinit && compinit -u -D`,
      `postrider() { case "$1$3" in completion--) ${PROGRAM} "$@" ;; *) printf 'GOT'; printf '<%s>' "$@"; echo ;; esac; }`,
      `source ${script}`,
      `PROMPT='READY''> '`,
    ],
  },
  fish: {
    start: 'fish --no-config -i',
    prepare: (script) => [
      `function postrider; if test "$argv[1]$argv[3]" = completion--; ${PROGRAM} $argv; else; printf GOT; printf '<%s>' $argv; echo; end; end`,
      `source ${script}`,
      // What fish suggests on its own would look like what the Tab key brought.
      `set -g fish_autosuggestion_enabled 0`,
      `function fish_prompt; echo -n 'READY''> '; end`,
    ],
  },
}

/**
 * What was typed, with the Tab key and then the letters that it has to bring between "→" and "←", and the words that
 * the command got. Those letters stand nowhere else in the line: fish writes the whole of it again while it is typed.
 */
const TYPED: [string, string][] = [
  ['domain ro→tate-dkim← x', '<domain><rotate-dkim><x>'],
  ['domain add x --tls→-policy← Require', '<domain><add><x><--tls-policy><Require>'],
  ['token create --duration 6→_months←', '<token><create><--duration><6_months>'],
  ['suppression import - --from send→grid← --fo→rce←', '<suppression><import><-><--from><sendgrid><--force>'],
  ['completion z→sh←', '<completion><zsh>'],
  ['--config here.t→oml← user li→st←', '<--config><here.toml><user><list>'],
  ['contacts import Readers readers.c→sv←', '<contacts><import><Readers><readers.csv>'],
  ['--json dev --data kept→-here←', '<--json><dev><--data><kept-here/>'],
]

const absent = ['script', ...Object.keys(SHELLS)].filter((name) => spawnSync(name, ['--version']).error)
const folder = mkdtempSync(join(tmpdir(), 'postrider-shells-'))

withPrograms('completion in real shells', absent, () => {
  before(() => {
    for (const file of ['here.toml', 'readers.csv']) writeFileSync(join(folder, file), '')
    mkdirSync(join(folder, 'kept-here'))
  })
  after(() => rmSync(folder, { recursive: true }))

  for (const [name, { prepare, start }] of Object.entries(SHELLS))
    test(name, { timeout: 4 * LIMIT }, async () => {
      const script = join(folder, `postrider.${name}`)
      writeFileSync(script, execFileSync(process.execPath, [SOURCE, 'completion', name]))
      const terminal = new Terminal(start)
      try {
        // What each line prints tells that the shell reads on; the prompt comes last.
        for (const [index, line] of prepare(script).entries()) {
          terminal.type(`${line}\n`)
          terminal.type(`echo step''${index}\n`)
          await terminal.says(new RegExp(`step${index}\\b`))
        }
        for (const [line, words] of TYPED) {
          await terminal.says(/READY> /)
          // A shell may throw away or reorder what is typed while it completes, so each Tab is waited for, as a person
          // does.
          for (const [, typed, brought] of `postrider ${line}`.matchAll(/([^→]+)(?:→([^←]+)←)?/g)) {
            terminal.type(brought ? `${typed}\t` : typed!)
            if (brought) await terminal.says(new RegExp(brought))
          }
          terminal.type('\n')
          // To the end of the line: its words may come one by one.
          const [, got] = await terminal.says(/GOT(<.*>)\s*\n/)
          // A shell may end a directory with a slash or not.
          assert.equal(got!.replace('kept-here>', 'kept-here/>'), words, line)
        }
      } finally {
        terminal.close()
      }
    })
})

/** A shell on a terminal of its own. */
class Terminal {
  #text = ''
  #look: (() => void) | undefined
  readonly #child

  constructor(command: string) {
    this.#child = spawn('script', ['-qefc', command, '/dev/null'], {
      cwd: folder,
      env: { PATH: process.env['PATH'], HOME: folder, TERM: 'xterm', LANG: 'C.UTF-8' },
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    this.#child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      this.#text += chunk
      this.#look?.()
    })
  }

  type(text: string): void {
    this.#child.stdin.write(text)
  }

  /** Waits for a text, and forgets all up to its end. */
  says(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      const limit = setTimeout(
        () => reject(new Error(`${String(pattern)} was not said: ${JSON.stringify(this.#text)}`)),
        LIMIT,
      )
      this.#look = () => {
        const found = pattern.exec(this.#text)
        if (!found) return
        this.#text = this.#text.slice(found.index + found[0].length)
        this.#look = undefined
        clearTimeout(limit)
        resolve(found)
      }
      this.#look()
    })
  }

  close(): void {
    this.#child.stdin.end()
    this.#child.kill('SIGKILL')
  }
}
