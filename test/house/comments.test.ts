// Comment lines have at most 120 columns in every source file: the formatter breaks code there but not comments. And
// comments, messages and documents avoid some words that have a plainer one.
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

/** How a comment line begins, by the name of its file. Undefined: the file has no comments, or is not our text. */
function beginningOf(file: string): RegExp | undefined {
  if (/\.(?:[cm]?[jt]s|css)$/.test(file)) return /^\s*(?:\/\/|\/?\*)/
  return /\.(?:md|json|html|eml|msg|png)$/.test(file) ? undefined : /^\s*[#;]/
}

/** Characters, not bytes or units of UTF-16. */
const columns = (line: string): number => Array.from(line).length

function longLines(file: string, text: string): number[] {
  const beginning = beginningOf(file)
  if (beginning === undefined || text.includes('\0')) return []
  return text.split('\n').flatMap((line, at) => (beginning.test(line) && columns(line) > MOST ? [at + 1] : []))
}

const filesIn = (folders: readonly string[]): string[] =>
  folders
    .flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1)),
    )
    .filter((file) => !file.includes('node_modules'))

test('comment lines have at most 120 columns', () => {
  const files = [...filesIn(FOLDERS), '.npmrc']
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

test('the check finds every form of comment and counts a character as one column', () => {
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

/** Words with a plainer one. The name `mend` of an attribute and of a variable is allowed. */
const PLAINER: readonly (readonly [word: RegExp, plainer: string])[] = [
  [/(?<!\bthere )\b(?:is|are|was|were) no (?!longer\b|more\b)[\w"'`]/i, 'is not a'],
  [/\banew\b/i, 'again'],
  [/\bmend(?:s|ed|ing)\b|\b(?:to|or|and|it|its|the) mend\b|\bmend (?:it|its|that|the|them|this)\b/i, 'fix'],
]
const UNPLAIN: Record<string, string> = {
  'docs/interface.md': 'the specification, whose sentences others quote',
  'test/house/comments.test.ts': 'it has the words as examples',
}

const wordsIn = (text: string): string[] =>
  PLAINER.flatMap(([word, plainer]) => (word.test(text) ? [`write "${plainer}"`] : []))

test('comments, messages and documents use the plainer word', () => {
  const files = [...filesIn([...FOLDERS, 'docs']), 'README.md', 'CONTRIBUTING.md', 'SECURITY.md']
  const faults = files
    .filter((file) => !(file in UNPLAIN))
    .flatMap((file) =>
      readFileSync(join(ROOT, file), 'utf8')
        .split('\n')
        .flatMap((line, at) => wordsIn(line).map((advice) => `${file}:${at + 1}: ${advice}`)),
    )
  assert.deepEqual(faults, [])
  for (const line of ['// This is no list.', "fail('Begin anew.')", 'its mend', 'Mended, it works.'])
    assert.equal(wordsIn(line).length, 1, line)
  for (const line of ['There is no list.', 'It is no longer here.', 'mend: string | null', 'const { mend } = finding'])
    assert.deepEqual(wordsIn(line), [], line)
})
