// Nominal types over primitives: an offset and an epoch are both numbers, but mixing them does not compile.

declare const brand: unique symbol;
export type Brand<T, Name extends string> = T & { readonly [brand]: Name };
