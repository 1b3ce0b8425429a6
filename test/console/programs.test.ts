// Tests the code samples of the API reference: each is parsed by its language, and one of each kind of operation runs.
// Go needs a slow compilation, so test/interop runs its samples.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { transform } from 'esbuild'
import { LANGUAGES, samplesOf, type SampleLanguage } from '../../src/console/reference/samples.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { ofFile } from '../kit/of-file.ts'
import { programsOn, RUNS, runPrograms } from '../kit/programs.ts'

const postrider = ofFile(() => startTestAppliance({ open: true, domains: ['here.test'] }))

const isThere = (program: string, ...args: string[]): boolean => spawnSync(program, args).status === 0
const absent = (language: SampleLanguage): string | false =>
  !isThere(language === 'curl' ? 'curl' : RUNS[language].program, '--version') && `no ${language}`

for (const language of LANGUAGES.filter((each) => each !== 'Go'))
  test(`one code sample of each kind runs: ${language}`, { skip: absent(language) }, () =>
    runPrograms(postrider, language),
  )

/** Values that a language may misread. */
const STRANGE = {
  text: `it's "so" \\ $HOME \${x} \`y\` {{z}}\nnext`,
  none: null,
  yes: true,
  no: false,
  many: [1, 2.5, [], {}],
  'a-b': { class: '' },
}

/** Every code sample of the reference in a language, and one with unusual values. */
async function everyProgram(language: SampleLanguage): Promise<string[]> {
  const first = await (await postrider.page('/docs')).text()
  const paths = [...new Set([...first.matchAll(/href="(\/docs\/[^"#]+)"/g)].map(([, path]) => path!))]
  const texts = await Promise.all(paths.map(async (path) => (await postrider.page(path)).text()))
  const found = texts.flatMap((text) => [...programsOn(text, language).values()])
  assert.ok(found.length > 80)
  const body = { type: 'application/json', value: STRANGE }
  const strange = samplesOf({ method: 'POST', url: postrider.url, signed: true, body, answer: 'json' })
  return [...found, strange.find(([each]) => each === language)![1]]
}

/** Writes every code sample into a file, and runs a checker over all of them. */
async function check(language: SampleLanguage, ending: string, [program, ...args]: string[]): Promise<string> {
  const folder = temporaryDirectory('programs')
  const files = (await everyProgram(language)).map((code, at) => {
    const file = join(folder, `sample${at}.${ending}`)
    writeFileSync(file, `${code}\n`)
    return file
  })
  const { status, stderr, stdout } = spawnSync(program!, [...args, ...files], { encoding: 'utf8' })
  assert.equal(status, 0, stderr + stdout)
  return stdout
}

test('every code sample is valid: Node', async () => {
  for (const code of await everyProgram('Node')) await transform(code, { loader: 'js', format: 'esm' })
})

test('every code sample is valid: curl', async () => {
  await check('curl', 'sh', ['sh', '-c', 'for file; do sh -n "$file" || exit 1; done', 'sh'])
})

test('every code sample is valid: Python', { skip: absent('Python') }, async () => {
  await check('Python', 'py', [
    'python3',
    '-c',
    'import sys\nfor f in sys.argv[1:]: compile(open(f).read(), f, "exec")',
  ])
})

test('every code sample is valid: PHP', { skip: absent('PHP') }, async () => {
  const code = 'foreach (array_slice($argv, 1) as $f) token_get_all(file_get_contents($f), TOKEN_PARSE);'
  await check('PHP', 'php', ['php', '-r', code, '--'])
})

test(
  'every code sample is valid and formatted: Go',
  {
    skip: !isThere('gofmt', '-h') && spawnSync('gofmt', ['-h']).error !== undefined && 'no Go',
  },
  async () => {
    assert.equal(await check('Go', 'go', ['gofmt', '-l']), '')
  },
)

test('code samples send unusual values unchanged: Python and PHP', { skip: absent('Python') || absent('PHP') }, () => {
  const said = samplesOf({
    method: 'POST',
    url: 'http://127.0.0.1:9/',
    signed: false,
    answer: 'json',
    body: { type: 'application/json', value: STRANGE },
  })
  const programs = new Map(said)
  const [, python] = /json\.dumps\(([^]*)\)\.encode\(\)/.exec(programs.get('Python')!)!
  const printed = spawnSync('python3', ['-c', `import json\nprint(json.dumps(${python}))`], { encoding: 'utf8' })
  assert.deepEqual(JSON.parse(printed.stdout), STRANGE)
  const [, php] = /'content' => ([^]*),\n {4}'ignore/.exec(programs.get('PHP')!)!
  const encoded = spawnSync('php', ['-r', `echo ${php};`], { encoding: 'utf8' })
  assert.deepEqual(JSON.parse(encoded.stdout), STRANGE)
})
