// The preparations of these tests before they enter a network without internet access.

import { existsSync } from 'node:fs'
import { missing } from '../rig/sandbox.ts'
import { debianRoot } from './base.ts'
import { debianPackage, type Package } from './package.ts'
import { FIRST, released, type Released } from './released.ts'

const PROGRAMS = [
  'mmdebstrap',
  'nsd',
  'ip',
  'nsenter',
  'unshare',
  'setpriv',
  'timeout',
  'dpkg-deb',
  'curl',
  'git',
  'tar',
]
const FOLDERS = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** What is not on this machine; empty when everything is there. */
export const absent = [
  ...missing(),
  ...PROGRAMS.filter((name) => !FOLDERS.some((folder) => existsSync(`${folder}/${name}`))),
  ...(existsSync('/proc/self/ns/cgroup') ? [] : ['namespaces for control groups']),
]

/** What a reader installs beside Postrider, as the documents say. */
const OFFERED = ['curl', 'jq', 'minisign', 'unattended-upgrades']

export interface Bare {
  made: Package
  root: string
}

export interface Prepared extends Bare {
  first: Released
}

/** A bare Debian, and the package. Made once; asked again it is only looked up. */
export async function bare(): Promise<Bare> {
  const made = await debianPackage()
  return { made, root: await debianRoot([...made.depends, ...OFFERED]) }
}

/** The same, and the first version. */
export async function prepare(): Promise<Prepared> {
  return { ...(await bare()), first: await released(FIRST) }
}

/** A Debian with Podman, and with curl for the tests. */
export const imageRoot = (): Promise<string> => debianRoot([], ['podman', 'podman-compose', 'curl'])
