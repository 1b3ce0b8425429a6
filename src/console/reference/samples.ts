// Programs that make a request to the API, in five languages. Each is whole: it runs as it stands where POSTRIDER_TOKEN
// is set, needs nothing but its language, and prints the answer. Interoperability tests run them.

export interface SampleRequest {
  method: string
  url: string
  /** Whether it is sent with the token. */
  signed: boolean
  body?: { type: string; value: unknown } | undefined
  /** The answer: JSON that is printed, nothing, or octets that are kept in a file. */
  answer: 'json' | 'nothing' | 'file'
}

export const LANGUAGES = ['curl', 'Node', 'Python', 'PHP', 'Go'] as const
export type SampleLanguage = (typeof LANGUAGES)[number]

/** The name of the file in which a sample keeps what it downloads. */
const FILE = 'download'
const FORM = 'application/x-www-form-urlencoded'

/** Lines with this indentation, but for the first, which stands behind something else. */
const inside = (indent: string, text: string): string => text.replaceAll('\n', `\n${indent}`)
const lines = (...each: (string | false)[]): string => each.filter((line) => line !== false).join('\n')
const json = (value: unknown): string => JSON.stringify(value, null, 2)
/** The name of a member that needs no quotes in JavaScript. */
const isPlain = (name: string): boolean => /^[a-zA-Z_$][\w$]*$/.test(name)
const form = (value: unknown): string => new URLSearchParams(value as Record<string, string>).toString()
const single = (text: string): string =>
  `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\n', '\\n')}'`

interface Notation {
  text: (text: string) => string
  word: (value: boolean | null) => string
  open: [object: string, array: string]
  close: [object: string, array: string]
  /** What stands between a name and its value. */
  is: string
  empty: string
  name: (name: string) => string
  indent: string
  trailing: string
}

/** A JSON value as a literal of a language. */
function literal(value: unknown, notation: Notation, depth = ''): string {
  if (typeof value === 'string') return notation.text(value)
  if (value === null || typeof value === 'boolean') return notation.word(value)
  if (typeof value !== 'object') return JSON.stringify(value)
  const kind = Array.isArray(value) ? 1 : 0
  const deeper = depth + notation.indent
  const members = Array.isArray(value)
    ? value.map((each) => literal(each, notation, deeper))
    : Object.entries(value).map(
        ([name, each]) => `${notation.name(name)}${notation.is}${literal(each, notation, deeper)}`,
      )
  if (members.length === 0) return kind === 1 ? '[]' : notation.empty
  return `${notation.open[kind]}\n${members.map((each) => `${deeper}${each}`).join(',\n')}${notation.trailing}\n${depth}${notation.close[kind]}`
}

const JAVASCRIPT: Notation = {
  text: single,
  word: String,
  open: ['{', '['],
  close: ['}', ']'],
  is: ': ',
  empty: '{}',
  name: (name) => (isPlain(name) ? name : single(name)),
  indent: '  ',
  trailing: ',',
}
const PYTHON: Notation = {
  ...JAVASCRIPT,
  text: JSON.stringify,
  word: (value) => (value === null ? 'None' : value ? 'True' : 'False'),
  name: JSON.stringify,
  indent: '    ',
}
const PHP: Notation = {
  ...JAVASCRIPT,
  text: (text) => (text.includes('\n') ? JSON.stringify(text).replaceAll('$', '\\$') : single(text)),
  open: ['[', '['],
  close: [']', ']'],
  is: ' => ',
  empty: '(object) []',
  name: single,
  indent: '    ',
}

function curl({ answer, body, method, signed, url }: SampleRequest): string {
  const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
  const parts = [
    `curl ${method === 'GET' ? '' : `-X ${method} `}${quoted(url)}`,
    ...(signed ? ['-H "Authorization: Bearer $POSTRIDER_TOKEN"'] : []),
    ...(body && body.type !== FORM ? [`-H ${quoted(`Content-Type: ${body.type}`)}`] : []),
    ...(body ? [`-d ${quoted(body.type === FORM ? form(body.value) : json(body.value))}`] : []),
    ...(answer === 'file' ? [`-o ${FILE}`] : []),
  ]
  return parts.join(' \\\n  ')
}

function node({ answer, body, method, signed, url }: SampleRequest): string {
  const isForm = body?.type === FORM
  const headers = lines(
    signed && '    Authorization: `Bearer ${process.env.POSTRIDER_TOKEN}`,',
    body !== undefined && !isForm && `    'Content-Type': ${single(body.type)},`,
  )
  const options = lines(
    method !== 'GET' && `  method: ${single(method)},`,
    headers !== '' && `  headers: {\n${headers}\n  },`,
    body !== undefined &&
      `  body: ${isForm ? 'new URLSearchParams' : 'JSON.stringify'}(${inside('  ', literal(body.value, JAVASCRIPT))}),`,
  )
  return lines(
    answer === 'file' && "import { writeFile } from 'node:fs/promises'\n",
    `const response = await fetch(${single(url)}${options === '' ? ')' : `, {\n${options}\n})`}`,
    answer === 'json' && 'console.log(response.status, JSON.stringify(await response.json(), null, 2))',
    answer === 'nothing' && 'console.log(response.status)',
    answer === 'file' && `await writeFile('${FILE}', Buffer.from(await response.arrayBuffer()))`,
  )
}

function python({ answer, body, method, signed, url }: SampleRequest): string {
  const isForm = body?.type === FORM
  const uses = [
    ...(answer === 'json' || (body && !isForm) ? ['json'] : []),
    ...(signed ? ['os'] : []),
    ...(answer === 'file' ? ['shutil'] : []),
    ...(isForm ? ['urllib.parse'] : []),
    'urllib.request',
  ]
  const headers = lines(
    signed && `        "Authorization": "Bearer " + os.environ["POSTRIDER_TOKEN"],`,
    body !== undefined && !isForm && `        "Content-Type": ${JSON.stringify(body.type)},`,
  )
  return lines(
    ...uses.map((name) => `import ${name}`),
    '',
    'request = urllib.request.Request(',
    `    ${JSON.stringify(url)},`,
    method !== 'GET' && `    method=${JSON.stringify(method)},`,
    headers !== '' && `    headers={\n${headers}\n    },`,
    body !== undefined &&
      `    data=${isForm ? 'urllib.parse.urlencode' : 'json.dumps'}(${inside('    ', literal(body.value, PYTHON))}).encode(),`,
    ')',
    'with urllib.request.urlopen(request) as response:',
    answer === 'json' && '    print(response.status, json.dumps(json.load(response), indent=2))',
    answer === 'nothing' && '    print(response.status)',
    answer === 'file' && `    with open("${FILE}", "wb") as file:\n        shutil.copyfileobj(response, file)`,
  )
}

function php({ answer, body, method, signed, url }: SampleRequest): string {
  const isForm = body?.type === FORM
  const options = lines(
    method !== 'GET' && `    'method' => ${single(method)},`,
    (signed || body !== undefined) &&
      lines(
        "    'header' => [",
        signed && "        'Authorization: Bearer ' . getenv('POSTRIDER_TOKEN'),",
        body !== undefined && `        ${single(`Content-Type: ${body.type}`)},`,
        '    ],',
      ),
    body !== undefined &&
      `    'content' => ${isForm ? 'http_build_query' : 'json_encode'}(${inside('    ', literal(body.value, PHP))}),`,
    "    'ignore_errors' => true,",
  )
  const asked = `file_get_contents(${single(url)}, false, $context)`
  return lines(
    '<?php',
    `$context = stream_context_create(['http' => [\n${options}\n]]);`,
    answer === 'file' ? `file_put_contents('${FILE}', ${asked});` : `echo ${asked}, "\\n";`,
  )
}

function go({ answer, body, method, signed, url }: SampleRequest): string {
  const text = body && (body.type === FORM ? form(body.value) : json(body.value))
  const quoted = text?.includes('`') === false ? `\`${text}\`` : JSON.stringify(text)
  const uses = [...(answer === 'json' ? ['fmt'] : []), ...(answer === 'nothing' ? ['fmt'] : ['io']), 'net/http']
  const needed = [...uses, ...(signed || answer === 'file' ? ['os'] : []), ...(body ? ['strings'] : [])]
  const fails = '\tif err != nil {\n\t\tpanic(err)\n\t}'
  return lines(
    'package main\n',
    `import (\n${needed.map((name) => `\t"${name}"`).join('\n')}\n)\n`,
    'func main() {',
    body !== undefined && `\tbody := strings.NewReader(${quoted})`,
    `\trequest, err := http.NewRequest("${method}", ${JSON.stringify(url)}, ${body ? 'body' : 'nil'})`,
    fails,
    signed && '\trequest.Header.Set("Authorization", "Bearer "+os.Getenv("POSTRIDER_TOKEN"))',
    body !== undefined && `\trequest.Header.Set("Content-Type", ${JSON.stringify(body.type)})`,
    '\tresponse, err := http.DefaultClient.Do(request)',
    fails,
    '\tdefer response.Body.Close()',
    answer === 'json' &&
      `\tanswer, err := io.ReadAll(response.Body)\n${fails}\n\tfmt.Println(response.StatusCode, string(answer))`,
    answer === 'nothing' && '\tfmt.Println(response.StatusCode)',
    answer === 'file' &&
      `\tfile, err := os.Create("${FILE}")\n${fails}\n\tdefer file.Close()\n\tif _, err := io.Copy(file, response.Body); err != nil {\n\t\tpanic(err)\n\t}`,
    '}',
  )
}

const WRITTEN: Record<SampleLanguage, (request: SampleRequest) => string> = {
  curl,
  Node: node,
  Python: python,
  PHP: php,
  Go: go,
}

/** The request as a program of each language. */
export const samplesOf = (request: SampleRequest): [language: SampleLanguage, code: string][] =>
  LANGUAGES.map((language) => [language, WRITTEN[language](request)])
