// Draws the API reference from the OpenAPI document of this server, with examples that can be pasted.

interface Operation {
  operationId?: string
  requestBody?: { content: Record<string, { example?: unknown }> }
  'x-codeSamples'?: { lang: string; label: string; source: string }[]
}
interface OpenApiDocument {
  servers: { url: string }[]
  paths: Record<string, Record<string, Operation>>
}

declare const Redoc: { init(document: unknown, options: object, element: Element): void }

const MEDIA = 'application/vnd.api+json'
const METHODS = ['get', 'post', 'patch', 'delete']

function samples(base: string, path: string, method: string, { requestBody }: Operation): Operation['x-codeSamples'] {
  const body = requestBody?.content[MEDIA]?.example
  const url = `${base}${path}`
  const json = body === undefined ? '' : JSON.stringify(body, null, 2)
  const verb = method.toUpperCase()
  const curl = [
    `curl -X ${verb} '${url}'`,
    `-H 'Authorization: Bearer TOKEN'`,
    ...(json === '' ? [] : [`-H 'Content-Type: ${MEDIA}'`, `-d '${json.replaceAll("'", "'\\''")}'`]),
  ].join(' \\\n  ')
  const headers = `    Authorization: 'Bearer TOKEN',${json === '' ? '' : `\n    'Content-Type': '${MEDIA}',`}`
  const call = `const response = await fetch('${url}', {\n  method: '${verb}',\n  headers: {\n${headers}\n  },${json === '' ? '' : `\n  body: JSON.stringify(${json.replaceAll('\n', '\n  ')}),`}\n})\nconst document = await response.json()`
  return [
    { lang: 'Shell', label: 'curl', source: curl },
    { lang: 'JavaScript', label: 'fetch', source: call },
  ]
}

const element = document.getElementById('reference')!
const response = await fetch('/api/v1/openapi.json')
const reference = (await response.json()) as OpenApiDocument
const base = reference.servers[0]?.url ?? `${element.dataset['server']}/api/v1`
for (const [path, operations] of Object.entries(reference.paths))
  for (const method of METHODS) {
    const operation = operations[method]
    if (operation && path.startsWith('/') && !path.startsWith('/oauth') && !path.startsWith('/.well-known'))
      operation['x-codeSamples'] = samples(base, path, method, operation)!
  }
const dark = matchMedia('(prefers-color-scheme: dark)').matches
const theme = dark
  ? {
      colors: {
        primary: { main: '#8ab4ff' },
        text: { primary: '#eceef2', secondary: '#a9adb8' },
        border: { dark: '#3a3d45', light: '#3a3d45' },
      },
      sidebar: { backgroundColor: '#17181c', textColor: '#eceef2' },
      rightPanel: { backgroundColor: '#101114' },
      schema: { nestedBackground: '#1d1f24' },
    }
  : {}
Redoc.init(reference, { theme, nativeScrollbars: true, hideDownloadButton: true, disableSearch: false }, element)

export {}
