// Pebble, the test CA of the ACME project, private to the test that starts it, with its own ports and names from the
// test's DNS.
import { request } from 'node:https'
import { makeCertificate } from '../../../src/base/certificate.ts'
import { freePort, Sandbox, until } from './sandbox.ts'

export const PEBBLE = '/usr/bin/pebble'

export interface Pebble {
  directory: string
  /** PEM file of the certificate of its own HTTPS. */
  caFile: string
  /** Where it looks for proofs by HTTP-01 and TLS-ALPN-01, instead of ports 80 and 443. */
  httpPort: number
  tlsPort: number
  /** The authority of the certificates that it gives, PEM. */
  root: () => Promise<string>
  log: () => string
  stop: () => Promise<void>
}

/**
 * `env`: Pebble's switches, such as PEBBLE_WFE_NONCEREJECT (percent of good nonces that it refuses).
 * `bindings`: keys in base64url by their id; an account must be bound to one of them (RFC 8555 §7.3.4).
 */
export async function startPebble(
  dnsPort: number,
  env: Record<string, string> = {},
  bindings: Record<string, string> = {},
): Promise<Pebble> {
  const box = new Sandbox('pebble')
  const [port, management, httpPort, tlsPort] = await Promise.all([freePort(), freePort(), freePort(), freePort()])
  const own = makeCertificate('localhost', Date.now())
  const caFile = box.write('own.pem', own.cert)
  const config = {
    pebble: {
      listenAddress: `127.0.0.1:${port}`,
      managementListenAddress: `127.0.0.1:${management}`,
      certificate: caFile,
      privateKey: box.write('own.key', own.key, 0o600),
      httpPort,
      tlsPort,
      ocspResponderURL: '',
      externalAccountBindingRequired: Object.keys(bindings).length > 0,
      externalAccountMACKeys: bindings,
    },
  }
  const file = box.write('pebble.json', JSON.stringify(config))
  const settings = Object.entries({ PEBBLE_VA_NOSLEEP: '1', ...env }).map(([name, value]) => `${name}=${value}`)
  const daemon = box.daemon(
    '/usr/bin/env',
    [...settings, PEBBLE, '-config', file, '-dnsserver', `127.0.0.1:${dnsPort}`],
    'pebble.log',
  )
  const get = (url: string): Promise<string> =>
    new Promise((resolve, reject) => {
      request(url, { ca: own.cert }, (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
        response.on('end', () => resolve(text))
      })
        .on('error', reject)
        .end()
    })
  const directory = `https://localhost:${port}/dir`
  await until(
    async () => {
      if (!daemon.alive()) throw new Error(`Pebble ended at once:\n${box.read('pebble.log')}`)
      return get(directory).then(
        () => true,
        () => false,
      )
    },
    15_000,
    () => `Pebble is not ready:\n${box.read('pebble.log')}`,
  )
  return {
    directory,
    caFile,
    httpPort,
    tlsPort,
    root: () => get(`https://localhost:${management}/roots/0`),
    log: () => box.read('pebble.log'),
    async stop() {
      await daemon.stop()
      await box.close()
    },
  }
}
