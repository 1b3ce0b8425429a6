// Certificates in certbot's layout: live/NAME/*.pem are links into archive/NAME, only root can access both directories,
// and a renewal writes new files and changes the links.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { PROGRAMS } from '../rig/sandbox.ts'
import type { Machine } from './machine.ts'

const run = promisify(execFile)

/** Writes the certificate with this serial number. A key has the group of the one before, and what that may. */
export async function writeCertificate(machine: Machine, host: string, serial: number): Promise<void> {
  const [live, archive] = [`/etc/letsencrypt/live/${host}`, `/etc/letsencrypt/archive/${host}`]
  const [chain, key] = [`${archive}/fullchain${serial}.pem`, `${archive}/privkey${serial}.pem`]
  const former = `${archive}/privkey${serial - 1}.pem`
  const shape = '-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2'
  const names = `-subj /CN=${host} -addext subjectAltName=DNS:${host} -set_serial ${serial}`
  const commands = [
    'mkdir -p -m 700 /etc/letsencrypt/live /etc/letsencrypt/archive',
    `mkdir -p ${live} ${archive}`,
    `openssl req ${shape} ${names} -keyout ${key} -out ${chain}`,
    `chmod 600 ${key} && chmod 644 ${chain}`,
    `if [ -e ${former} ]; then chgrp --reference=${former} ${key} && chmod --reference=${former} ${key}; fi`,
    `ln -sfn ../../archive/${host}/fullchain${serial}.pem ${live}/fullchain.pem`,
    `ln -sfn ../../archive/${host}/privkey${serial}.pem ${live}/privkey.pem`,
  ]
  for (const command of commands) await machine.must(command)
}

/** The serial number of the certificate that port 25 shows, in hexadecimal; empty when none is shown. */
export async function serialOf(address: string): Promise<string> {
  const client = ['s_client', '-connect', `${address}:25`, '-starttls', 'smtp', '-showcerts']
  const shown = run(PROGRAMS.openssl, client, { timeout: 20_000 })
  shown.child.stdin?.end('QUIT\n')
  const { stdout } = await shown.catch(() => ({ stdout: '' }))
  const pem = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/.exec(stdout)?.[0]
  if (pem === undefined) return ''
  const told = run(PROGRAMS.openssl, ['x509', '-noout', '-serial'])
  told.child.stdin?.end(pem)
  return (await told).stdout.replace('serial=', '').trim()
}
