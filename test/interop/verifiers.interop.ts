// The webhook verifiers in docs/webhooks.md, each in its language, with valid, invalid, expired and malformed requests.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { cases, SECRET, snippet } from '../kit/verifiers.ts'
import { withPrograms } from './rig/need.ts'

interface Language {
  name: string
  program: string
  /** The mark of its block on the page. */
  mark: string
  file: string
  /** The program that reads cases and prints what the verifier says of each, as JSON. */
  around: (code: string) => string
  args: string[]
}

const secret = JSON.stringify(SECRET)
const LANGUAGES: Language[] = [
  {
    name: 'TypeScript',
    program: process.execPath,
    mark: 'ts',
    file: 'verify.ts',
    args: ['verify.ts'],
    around: (code) => `${code}
import { readFileSync } from 'node:fs'
const cases = JSON.parse(readFileSync('cases.json', 'utf8'))
const said = cases.map(({ headers, body }: any) => isGenuine(${secret}, (name) => headers[name], Buffer.from(body, 'base64')))
console.log(JSON.stringify(said))
`,
  },
  {
    name: 'Python',
    program: '/usr/bin/python3',
    mark: 'python',
    file: 'verify.py',
    args: ['-I', 'verify.py'],
    around: (code) => `${code}
import json
cases = json.load(open("cases.json", encoding="utf-8"))
print(json.dumps([is_genuine(${secret}, each["headers"], base64.b64decode(each["body"])) for each in cases]))
`,
  },
  {
    name: 'PHP',
    program: '/usr/bin/php',
    mark: 'php',
    file: 'verify.php',
    args: ['-d', 'error_reporting=E_ALL', '-d', 'display_errors=1', 'verify.php'],
    around: (code) => `<?php
declare(strict_types=1);
${code}
$cases = json_decode(file_get_contents('cases.json'), true, 512, JSON_THROW_ON_ERROR);
echo json_encode(array_map(fn ($each) => is_genuine('${SECRET}', $each['headers'], base64_decode($each['body'])), $cases));
`,
  },
  {
    name: 'Ruby',
    program: '/usr/bin/ruby',
    mark: 'ruby',
    file: 'verify.rb',
    args: ['-w', 'verify.rb'],
    around: (code) => `${code}
require 'json'
cases = JSON.parse(File.read('cases.json', encoding: 'utf-8'))
puts JSON.generate(cases.map { |each| genuine?('${SECRET}', each['headers'], each['body'].unpack1('m')) })
`,
  },
  {
    name: 'Go',
    program: '/usr/bin/go',
    mark: 'go',
    file: 'verify.go',
    args: ['run', 'verify.go', 'main.go'],
    around: (code) => `package main

${code}
`,
  },
]

const GO_MAIN = `package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
)

func main() {
	text, _ := os.ReadFile("cases.json")
	var cases []struct {
		Headers map[string]string
		Body    string
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		panic(err)
	}
	said := []bool{}
	for _, each := range cases {
		header := http.Header{}
		for name, value := range each.Headers {
			header.Set(name, value)
		}
		body, _ := base64.StdEncoding.DecodeString(each.Body)
		said = append(said, IsGenuine(${secret}, header, body))
	}
	printed, _ := json.Marshal(said)
	fmt.Println(string(printed))
}
`

for (const { around, args, file, mark, name, program } of LANGUAGES)
  withPrograms(`the verifier in ${name}`, existsSync(program) ? [] : [program], () => {
    test('accepts only genuine requests', async () => {
      const dir = mkdtempSync(join(tmpdir(), 'postrider-verifier-'))
      try {
        const given = cases(Math.floor(Date.now() / 1000))
        writeFileSync(join(dir, 'cases.json'), JSON.stringify(given))
        writeFileSync(join(dir, file), around(snippet(mark)))
        if (name === 'Go') writeFileSync(join(dir, 'main.go'), GO_MAIN)
        mkdirSync(join(dir, 'cache'))
        const env = { PATH: '/usr/bin:/bin', HOME: dir, GOCACHE: join(dir, 'cache'), GO111MODULE: 'off', GOFLAGS: '' }
        const printed = await new Promise<string>((resolve, reject) => {
          execFile(program, args, { cwd: dir, env, timeout: 240_000, killSignal: 'SIGKILL' }, (error, stdout, stderr) =>
            error || stderr !== '' ? reject(new Error(`${name}: ${stderr || error?.message}`)) : resolve(stdout),
          )
        })
        const said = JSON.parse(printed) as boolean[]
        assert.deepEqual(
          given.map((each, index) => [each.name, said[index]]),
          given.map((each) => [each.name, each.genuine]),
        )
      } finally {
        rmSync(dir, { recursive: true, force: true })
      }
    })
  })
