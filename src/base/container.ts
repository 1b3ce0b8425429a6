// Detects whether the process runs in a container, and the address that a network bridge gives to all clients.
import { existsSync, readFileSync } from 'node:fs'
import { builtFrom } from './installed.ts'
import { forInstance } from './named-instance.ts'

interface Signs {
  image?: boolean
  exists?: (file: string) => boolean
  environment?: Record<string, string | undefined>
}

/** Detects the container engine by its traces. Memory at /run, as "--read-only" mounts it, hides Podman's file. */
function engineOf({
  exists = existsSync,
  environment = process.env,
}: Signs): 'kubernetes' | 'podman' | 'docker' | undefined {
  if (environment['KUBERNETES_SERVICE_HOST'] !== undefined) return 'kubernetes'
  if (environment['container'] === 'podman' || exists('/run/.containerenv')) return 'podman'
  return exists('/.dockerenv') ? 'docker' : undefined
}

/** Whether this process runs in a container: in the image, or where Docker, Podman or Kubernetes has left its sign. */
export const inContainer = (signs: Signs = {}): boolean =>
  (signs.image ?? builtFrom() === 'image') || engineOf(signs) !== undefined

/** The address of the default gateway in IPv4 from /proc/net/route, or undefined. */
export function defaultGateway(table: string | undefined = routes()): string | undefined {
  for (const line of table?.split('\n').slice(1) ?? []) {
    const [, destination, gateway = ''] = line.trim().split(/\s+/)
    if (destination === '00000000' && /^[0-9A-F]{8}$/i.test(gateway) && gateway !== '00000000')
      return [...Buffer.from(gateway, 'hex')].reverse().join('.')
  }
  return undefined
}

function routes(): string | undefined {
  try {
    return readFileSync('/proc/net/route', 'utf8')
  } catch {
    return undefined
  }
}

/** The problem if all clients have the gateway's address, and its fix. */
export const BEHIND_NAT = {
  detail: 'all clients of port 25 seem to be the default gateway, so sender checks and limits treat them as one',
  fix: 'Run the container on the host network (network_mode: host, "--network host").',
}

/** How to allow a container to use a port below 1024. */
export const LOW_PORTS =
  'with Podman, add "--cap-add NET_BIND_SERVICE"; with Docker on the host network, set net.ipv4.ip_unprivileged_port_start=25 in /etc/sysctl.d of the host; a bridge network needs neither'

/**
 * A Postrider command as the user types it. For the image, which has no shell, it uses the engine's exec, with a
 * terminal if the command prompts, and with standard input if it reads that. The name of the container is not known
 * inside.
 */
export function execLine(command: string, does?: 'asks' | 'reads', signs: Signs = {}): string {
  if (!(signs.image ?? builtFrom() === 'image')) return forInstance(`postrider ${command}`)
  const engine = engineOf(signs) ?? 'docker'
  const terminal = does === undefined ? '' : does === 'asks' ? '-it ' : '-i '
  if (engine === 'kubernetes') return `kubectl exec ${terminal}POD -- postrider ${command}`
  return `${engine} exec ${terminal}CONTAINER postrider ${command}`
}
