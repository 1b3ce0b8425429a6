// The menu of the console, and the tabs of the page "Server".
import type { Scope } from '../../jsonapi/scopes.ts'
import type { Icon } from './icons.ts'

/** A page in the menu. */
export interface MenuEntry {
  group: '' | 'Delivery' | 'Newsletters' | 'Inbound' | 'Setup' | 'Admin'
  /** The position in its group. */
  rank: number
  path: string
  name: string
  icon: Icon
  /** The key that opens this page, after "g". */
  key: string
  /** For operators only. */
  operator?: true
  /** The scopes of this page and the pages below it, without ":read" and ":write". */
  scope?: ScopeName
  /** The page only changes data, so it is not for users who can only read. */
  changes?: true
  /** The page has something to show to users whose email and suppressions are limited to those of campaigns. */
  marketing?: true
}

/** The name of a pair of scopes. */
type ScopeName = Scope extends infer S ? (S extends `${infer Name}:${string}` ? Name : never) : never

/** A tab of the page "Server". */
export type ServerTab = readonly [path: string, name: string]

/** The pages that are reached from every page. */
export interface Navigation {
  menu: readonly MenuEntry[]
  serverTabs: readonly ServerTab[]
}

/** The menu entry of a page, or of the page that it is below. */
export const entryOf = ({ menu }: Navigation, path: string): MenuEntry | undefined =>
  menu.find((entry) => entry.path !== '/' && (path === entry.path || path.startsWith(`${entry.path}/`)))
