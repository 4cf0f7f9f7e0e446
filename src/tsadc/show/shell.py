from tsadc.show.html import page, write_page

__all__ = ["page", "write_page"]
