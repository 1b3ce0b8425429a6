// serve.json in the data directory: the address at which the running server answers HTTP, for `postrider health`.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { isObject } from './json.ts'
import { formatEndpoint, isAddress, parseEndpoint } from './network.ts'
import { readNoted, replacePlain } from './plain-file.ts'

interface Endpoint {
  host: string
  port: number
}

const fileIn = (dataDir: string): string => join(dataDir, 'serve.json')

/** Writes the address; the answer removes it. Throws the system's error. */
export function keepServed(dataDir: string, { host, port }: Endpoint): () => void {
  const file = fileIn(dataDir)
  replacePlain(file, `${JSON.stringify({ http: formatEndpoint(host, port) })}\n`, { lasting: false })
  return () => rmSync(file, { force: true })
}

/** The address; undefined without a server, or when the file cannot be read or says something else. */
export function servedAt(dataDir: string): Endpoint | undefined {
  try {
    const read: unknown = JSON.parse(readNoted(fileIn(dataDir)).toString())
    const at = isObject(read) && typeof read['http'] === 'string' ? parseEndpoint(read['http']) : undefined
    return at && isAddress(at.host) ? at : undefined
  } catch {
    return undefined
  }
}
