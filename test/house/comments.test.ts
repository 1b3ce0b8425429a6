// Comment lines end at column 120, in every kind of file that people read: the formatter breaks code there, and leaves
// comments alone.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const ROOT = join(import.meta.dirname, '../..')
const FOLDERS = ['.ci', 'bin', 'config', 'packaging', 'src', 'test']
const MOST = 120

/** Files that may have longer lines. */
const ALLOWED: Record<string, string> = {
  'packaging/debian/postrider.toml': 'a configuration file of the package: dpkg asks about every change of it',
}

/** How a comment line begins, by the name of its file; undefined: the file has none, or is no text of ours. */
function beginningOf(file: string): RegExp | undefined {
  if (/\.(?:[cm]?[jt]s|css)$/.test(file)) return /^\s*(?:\/\/|\/?\*)/
  return /\.(?:md|json|html|eml|msg|png)$/.test(file) ? undefined : /^\s*[#;]/
}

/** Characters, not octets or units of UTF-16. */
const columns = (line: string): number => Array.from(line).length

function longLines(file: string, text: string): number[] {
  const beginning = beginningOf(file)
  if (beginning === undefined || text.includes('\0')) return []
  return text.split('\n').flatMap((line, at) => (beginning.test(line) && columns(line) > MOST ? [at + 1] : []))
}

test('comment lines end at column 120', () => {
  const files = FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1)),
  ).filter((file) => !file.includes('node_modules'))
  files.push('.npmrc')
  const found = files.flatMap((file) =>
    longLines(file, readFileSync(join(ROOT, file), 'utf8')).map((line) => `${file}:${line}`),
  )
  const allowed = (place: string): boolean => place.replace(/:\d+$/, '') in ALLOWED
  assert.deepEqual(
    found.filter((place) => !allowed(place)),
    [],
  )
  assert.deepEqual(
    Object.keys(ALLOWED).filter((file) => !found.some((place) => place.startsWith(`${file}:`))),
    [],
    'exceptions that nothing needs',
  )
})

test('every form of comment is seen, and a character is one column', () => {
  const long = 'x'.repeat(MOST)
  for (const line of [`// ${long}`, ` * ${long}`, `/** ${long}`, `  /* ${long} */`])
    assert.deepEqual(longLines('a.ts', `a()\n${line}\n`), [2], line)
  for (const [file, line] of [
    ['a.sh', `# ${long}`],
    ['a.toml', `  # ${long}`],
    ['postinst', `# ${long}`],
    ['.npmrc', `; ${long}`],
  ] as const)
    assert.deepEqual(longLines(file, `${line}\n`), [1], file)
  assert.deepEqual(longLines('a.ts', `// ${'\u{1f4ee}\u00e9'.repeat(58)}\n`), [])
  assert.deepEqual(longLines('a.ts', `const a = '${long}' // b\n`), [])
})
