// Code samples that make a request to the API, in five languages. Each is a complete program: it runs if
// POSTRIDER_TOKEN is set, needs only its language, and prints the response. Tests run them. The body is the same JSON
// in all of them.

interface SampleBody {
  type: string
  value: unknown
}

export interface SampleRequest {
  method: string
  url: string
  /** Whether the request needs the token. */
  signed: boolean
  body?: SampleBody | undefined
  /** The response: JSON, which is printed, empty, or bytes for a file. */
  answer: 'json' | 'nothing' | 'file'
}

export const LANGUAGES = ['curl', 'Node', 'Python', 'PHP', 'Go'] as const
export type SampleLanguage = (typeof LANGUAGES)[number]

/** The file name of a download. */
const FILE = 'download'
const FORM = 'application/x-www-form-urlencoded'

const lines = (...each: (string | false)[]): string => each.filter((line) => line !== false).join('\n')
/** Indents every line but the first, which follows other code. */
const inside = (indent: string, text: string): string => text.replaceAll('\n', `\n${indent}`)
const single = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
const isForm = (body: SampleBody): boolean => body.type === FORM
/** The body as it is sent. */
const textOf = ({ type, value }: SampleBody): string =>
  type === FORM ? new URLSearchParams(value as Record<string, string>).toString() : JSON.stringify(value, null, 2)

/** JSON as a Python literal. */
const pythonOf = (json: string): string => {
  const words: Record<string, string> = { true: 'True', false: 'False', null: 'None' }
  return json.replace(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (token) => words[token] ?? token)
}

function curl({ answer, body, method, signed, url }: SampleRequest): string {
  const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
  const parts = [
    `curl ${method === 'GET' ? '' : `-X ${method} `}${quoted(url)}`,
    ...(signed ? ['-H "Authorization: Bearer $POSTRIDER_TOKEN"'] : []),
    ...(body && !isForm(body) ? [`-H ${quoted(`Content-Type: ${body.type}`)}`] : []),
    ...(body ? [`-d ${quoted(textOf(body))}`] : []),
    ...(answer === 'file' ? [`-o ${FILE}`] : []),
  ]
  return parts.join(' \\\n  ')
}

function node({ answer, body, method, signed, url }: SampleRequest): string {
  const headers = lines(
    signed && '    Authorization: `Bearer ${process.env.POSTRIDER_TOKEN}`,',
    body !== undefined && `    'Content-Type': ${single(body.type)},`,
  )
  const options = lines(
    method !== 'GET' && `  method: ${single(method)},`,
    headers !== '' && `  headers: {\n${headers}\n  },`,
    body !== undefined &&
      `  body: ${isForm(body) ? single(textOf(body)) : `JSON.stringify(${inside('  ', textOf(body))})`},`,
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
  const uses = [
    ...(answer === 'json' || (body && !isForm(body)) ? ['json'] : []),
    ...(signed ? ['os'] : []),
    ...(answer === 'file' ? ['shutil'] : []),
    'urllib.request',
  ]
  const headers = lines(
    signed && `        "Authorization": "Bearer " + os.environ["POSTRIDER_TOKEN"],`,
    body !== undefined && `        "Content-Type": ${JSON.stringify(body.type)},`,
  )
  const data = body && (isForm(body) ? JSON.stringify(textOf(body)) : `json.dumps(${pythonOf(textOf(body))})`)
  return lines(
    ...uses.map((name) => `import ${name}`),
    '',
    'request = urllib.request.Request(',
    `    ${JSON.stringify(url)},`,
    method !== 'GET' && `    method=${JSON.stringify(method)},`,
    headers !== '' && `    headers={\n${headers}\n    },`,
    data !== undefined && `    data=${inside('    ', data)}.encode(),`,
    ')',
    'with urllib.request.urlopen(request) as response:',
    answer === 'json' && '    print(response.status, json.dumps(json.load(response), indent=2))',
    answer === 'nothing' && '    print(response.status)',
    answer === 'file' && `    with open("${FILE}", "wb") as file:\n        shutil.copyfileobj(response, file)`,
  )
}

function php({ answer, body, method, signed, url }: SampleRequest): string {
  const headers = lines(
    signed && "        'Authorization: Bearer ' . getenv('POSTRIDER_TOKEN'),",
    body !== undefined && `        ${single(`Content-Type: ${body.type}`)},`,
  )
  const options = lines(
    method !== 'GET' && `    'method' => ${single(method)},`,
    headers !== '' && `    'header' => [\n${headers}\n    ],`,
    body !== undefined && `    'content' => <<<'BODY'\n    ${inside('    ', textOf(body))}\n    BODY,`,
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
  const text = body && textOf(body)
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

/** Returns the request as a program in each language. */
export const samplesOf = (request: SampleRequest): [language: SampleLanguage, code: string][] =>
  LANGUAGES.map((language) => [language, WRITTEN[language](request)])
