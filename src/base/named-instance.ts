// The instance that this process belongs to, of several on one machine (`--instance NAME`). Its user, its unit and its
// data directory are named after it. Commands in messages are for it: without the option, a copied "postrider restore"
// would change another installation.

let here: string | undefined

/** Sets the instance of this process. Undefined: the installation without a name. */
export const belongTo = (name: string | undefined): void => void (here = name)

/** The user of an instance, which is also the name of its data directory below /var/lib. */
export const userOf = (name = here): string => (name === undefined ? 'postrider' : `postrider-${name}`)

export const isInstance = (): boolean => here !== undefined

/** The systemd unit of this process's instance, without ".service". */
export const unitName = (): string => (here === undefined ? 'postrider' : `postrider@${here}`)

/** Returns a message whose commands ("postrider doctor", "systemctl restart postrider") are for this instance. */
export const forInstance = (text: string): string =>
  here === undefined
    ? text
    : text
        .replaceAll(/(\bsystemctl [a-z -]+ )postrider(?![\w@-])/g, `$1${unitName()}`)
        .replaceAll(/(?<![\w./@-])postrider (?=[a-z…])/g, `postrider --instance ${here} `)
