import type { AnchorHTMLAttributes, MouseEvent } from 'react';
import { navigate, usePath } from './location';

interface LinkProps extends AnchorHTMLAttributes<HTMLAnchorElement> {
  readonly to: string;
}

/** A link within the page. Modifier keys open it in another tab or window as usual. */
export function Link({ to, onClick, ...rest }: LinkProps) {
  const path = usePath();
  function follow(event: MouseEvent<HTMLAnchorElement>) {
    onClick?.(event);
    const wantsOwnWay =
      event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0;
    if (event.defaultPrevented || wantsOwnWay) return;
    event.preventDefault();
    navigate(to);
  }
  return <a href={to} onClick={follow} aria-current={path === to ? 'page' : undefined} {...rest} />;
}
