// What a process can see of the container that it runs in: that it is one, and the address that a network bridge gives
// to all clients.
import { existsSync, readFileSync } from 'node:fs'
import { builtFrom } from './installed.ts'

interface Signs {
  image?: boolean
  exists?: (file: string) => boolean
  environment?: Record<string, string | undefined>
}

/** What has left its sign on this process. Memory at /run, as "--read-only" mounts it, hides Podman's file. */
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

/** The address of the default gateway in IPv4, as /proc/net/route has it; undefined where there is none. */
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

/** What is wrong where all clients come from the gateway, and what helps. */
export const BEHIND_NAT = {
  detail: 'every client of port 25 comes from the default gateway: sender checks and limits see one client',
  mend: 'Give the container the host\'s network (network_mode: host, "--network host").',
}

/** How a container that is refused a port below 1024 gets it. */
export const LOW_PORTS =
  'with Podman add "--cap-add NET_BIND_SERVICE"; on a bridge network of Docker or Podman every user may open it; with Docker on the network of the host set net.ipv4.ip_unprivileged_port_start=25 in /etc/sysctl.d of the host'

/**
 * A command of Postrider as it is typed: in the image, which has no shell, by the engine's exec, with a terminal where
 * it asks something, and with standard input where it reads that. Nothing inside knows the name of the container.
 */
export function execLine(command: string, does?: 'asks' | 'reads', signs: Signs = {}): string {
  if (!(signs.image ?? builtFrom() === 'image')) return `postrider ${command}`
  const engine = engineOf(signs) ?? 'docker'
  const terminal = does === undefined ? '' : does === 'asks' ? '-it ' : '-i '
  if (engine === 'kubernetes') return `kubectl exec ${terminal}POD -- postrider ${command}`
  return `${engine} exec ${terminal}CONTAINER postrider ${command}`
}
